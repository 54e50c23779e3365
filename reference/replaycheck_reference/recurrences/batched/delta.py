"""The gated delta rule over a window in float64, taken apart into the terms that every bound and every fit is made of.

    S_m = S_{m-1} M_m + beta_m v_m k_m^T,        M_m = diag(a_m) (I - beta_m k_m k_m^T),       a_m = e^{g_m}
    d_m = beta_m (v_m - S_{m-1} diag(a_m) k_m),  o_m = S_m q_m

Later transitions are multiplied out onto what they meet: queries are carried back, keys are carried on to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...layer import DeltaLayer, DeltaTokens

__all__ = ["ChannelTerms", "DeltaTerms", "decompose"]


@dataclass(frozen=True, kw_only=True)
class DeltaTerms:
    """The terms of a window, float64; every field may carry leading batch dims. channels is state_dim, or 1 where a head has one decay.

    start: [heads, head_dim, state_dim]. raw, log_decay: [tokens, heads, channels]; raw with its bias. rate: exp(A_log), [heads].
    total: log decay of the start state at each token. span: [tokens, tokens, heads, channels], log decay from token j (second dim) to
    token m (first), -inf for j > m. raw_beta, beta: [tokens, heads]. v, delta: [tokens, heads, head_dim]. k, q: [tokens, heads, state_dim],
    after norm and scale, of heads. k_squares, q_squares: sums of squares before the norm, [tokens, heads]. before, after: S_m-1 diag(a_m)
    and S_m, [tokens, heads, head_dim, state_dim]. queries: q_m carried back to before token j, [tokens + 1, tokens, heads, state_dim],
    j first, zero for j > m + 1; as j = m + 1 it is q_m. keys: k_j carried on to the end, [tokens, heads, state_dim].
    """

    start: Tensor
    raw: Tensor
    rate: Tensor
    log_decay: Tensor
    total: Tensor
    span: Tensor
    raw_beta: Tensor
    beta: Tensor
    v: Tensor
    k: Tensor
    q: Tensor
    k_squares: Tensor
    q_squares: Tensor
    delta: Tensor
    before: Tensor
    after: Tensor
    queries: Tensor
    keys: Tensor

    def outputs(self) -> Tensor:
        """Exact outputs to float64: [..., tokens, heads, head_dim]."""
        return torch.einsum("...hpn,...hn->...hp", self.after, self.q)

    def end(self) -> Tensor:
        """The state after the last token: [..., heads, head_dim, state_dim]."""
        return self.after[..., -1, :, :, :]

    def carried(self, state: Tensor, token: int) -> Tensor:
        """What remains at the end of an addition to the state before `token`, [..., heads, head_dim, state_dim]."""
        for index in range(token, self.k.shape[-3]):
            decayed = state * torch.exp(self.log_decay[..., index, :, None, :])
            k = self.k[..., index, :, :]
            seen = self.beta[..., index, :, None] * torch.einsum("...hpn,...hn->...hp", decayed, k)
            state = decayed - seen[..., None] * k[..., None, :]
        return state

    def inserted(self) -> Tensor:
        """beta v of each token, zero for the last, which nothing decays: [..., tokens, heads, head_dim]."""
        inserted = self.beta[..., None] * self.v
        inserted[..., -1, :, :] = 0
        return inserted

    def start_field(self) -> Tensor:
        """What remains of the start state at the end, less what lies along the keys, where deltas err too: [..., *state_shape]."""
        keys = self.keys.movedim(-3, -2)
        onto: Tensor = torch.linalg.pinv(keys, rtol=1e-9) @ keys
        carried = self.carried(self.start, 0)
        return carried - carried @ onto

    def state_fields(self) -> Tensor:
        """What one error of the start state's log decay, then of each token's beta and of the log decay since it, adds to the end state:
        [..., heads, 1 + 2 tokens, head_dim * state_dim].
        """
        rows = torch.stack([self.delta, self.inserted()], -3)
        tokens = torch.einsum("...jihp,...jhn->...hjipn", rows, self.keys).flatten(-4, -3)
        return torch.cat([self.carried(self.start, 0).unsqueeze(-3), tokens], -3).flatten(-2)

    def unit_fields(self) -> Tensor:
        """The same, of what shares one decay: a head. The start state is told where deltas leave nothing."""
        fields = self.state_fields()
        fields[..., 0, :] = self.start_field().flatten(-2)
        return fields

    def unit_kinds(self) -> tuple[str, ...]:
        """What each unit field of a token is an error of."""
        return self.field_kinds()

    def units(self, state: Tensor) -> Tensor:
        """A state by what shares one decay: [..., heads, head_dim * state_dim]."""
        return state.flatten(-2)

    def output_fields(self) -> Tensor:
        """The same of every output: [..., tokens, heads, 1 + 2 tokens, head_dim]; fields of later tokens are zero."""
        start = torch.einsum("...hpn,...mhn->...mhp", self.start, self.queries[..., 0, :, :, :])
        score = torch.einsum("...jhn,...jmhn->...jmh", self.k, self.queries[..., 1:, :, :, :])
        own = torch.eye(score.shape[-2], dtype=torch.bool, device=score.device)[..., None]
        weight = torch.einsum("...jmh,...jhp->...mhjp", score, self.delta)
        since = torch.einsum("...jmh,...jhp->...mhjp", torch.where(own, 0.0, score), self.beta[..., None] * self.v)
        return torch.cat([start.unsqueeze(-2), torch.stack([weight, since], -2).flatten(-3, -2)], -2)

    def field_kinds(self) -> tuple[str, ...]:
        """What is wrong with a token in each of its fields."""
        return ("beta", "decay since the insertion")

    def beside(self) -> tuple[str, Tensor] | None:
        """Every term of an output is of the state."""
        return None


class ChannelTerms(DeltaTerms):
    """The terms of a window where every key channel has its own decay: fitted channel by channel, on the deltas as they were folded."""

    def unit_fields(self) -> Tensor:
        """What one error of the decay of a start state's channel, and of a delta's weight in it, adds to that channel of the end state:
        [..., heads * state_dim, 1 + tokens, head_dim].
        """
        decay, weight = torch.exp(self.total[..., -1, :, :]), torch.exp(self.span[..., -1, :, :, :]) * self.k
        tokens = torch.einsum("...jhp,...jhn->...hnjp", self.delta, weight)
        start = (self.start * decay[..., None, :]).transpose(-1, -2).unsqueeze(-2)
        return torch.cat([start, tokens], -2).flatten(-4, -3)

    def unit_kinds(self) -> tuple[str, ...]:
        """What each unit field of a token is an error of."""
        return ("weight",)

    def units(self, state: Tensor) -> Tensor:
        """A state by what shares one decay: [..., heads * state_dim, head_dim]."""
        return state.transpose(-1, -2).flatten(-3, -2)


def decompose(layer: DeltaLayer, start: Tensor, tokens: DeltaTokens) -> DeltaTerms:
    """Take a window apart. Leading batch dims of `start` and of every tensor of `tokens` agree and are kept."""
    group = layer.group_of_head().to(tokens.k.device)
    raw, rate, log_decay = _gate(layer, tokens)
    raw_beta = tokens.b.to(torch.float64)
    beta = raw_beta if layer.variant.beta == "given" else torch.sigmoid(raw_beta) * (2 if layer.variant.beta == "doubled" else 1)
    k, k_squares = _normed(layer, tokens.k.to(torch.float64))
    q, q_squares = _normed(layer, tokens.q.to(torch.float64))
    k, q, v = k[..., group, :], q[..., group, :] * layer.scale, tokens.v.to(torch.float64)
    begun = start.to(torch.float64)
    delta, before, after = _states(begun, log_decay, beta, k, v)
    kind = ChannelTerms if layer.variant.channels else DeltaTerms
    return kind(
        start=begun, raw=raw, rate=rate, log_decay=log_decay, total=torch.cumsum(log_decay, -3), span=_spans(log_decay), raw_beta=raw_beta,
        beta=beta, v=v, k=k, q=q, k_squares=k_squares[..., group], q_squares=q_squares[..., group], delta=delta, before=before, after=after,
        queries=_carried_back(log_decay, beta, k, q), keys=_carried_on(log_decay, beta, k),
    )


def _gate(layer: DeltaLayer, tokens: DeltaTokens) -> tuple[Tensor, Tensor, Tensor]:
    """The raw gate with its bias, exp(A_log), and the log decay; a last dim of channels."""
    form, raw = layer.variant, tokens.g.to(torch.float64)
    if layer.dt_bias is not None:
        raw = raw + layer.dt_bias.to(torch.float64)
    raw = raw if form.channels else raw[..., None]
    rate = torch.ones(layer.heads, dtype=torch.float64) if layer.A_log is None else torch.exp(layer.A_log.to(torch.float64))
    rate = rate.to(raw.device)
    if form.gate == "given":
        return raw, rate, raw
    if form.gate == "classic":
        return raw, rate, -rate[:, None] * (torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs())))
    return raw, rate, form.lower_bound * torch.sigmoid(rate[:, None] * raw)


def _normed(layer: DeltaLayer, x: Tensor) -> tuple[Tensor, Tensor]:
    """x divided by its norm as the variant says, and its sum of squares."""
    form, squares = layer.variant, (x * x).sum(-1)
    if form.norm == "off":
        return x, squares
    root = torch.sqrt(squares)
    norm = {"inside": torch.sqrt(squares + form.eps), "outside": root + form.eps, "max": root.clamp(min=form.eps)}[form.norm]
    return x / norm[..., None], squares


def _states(start: Tensor, log_decay: Tensor, beta: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Deltas, and the state before prediction and after each token."""
    deltas, before, after, state = [], [], [], start
    for m in range(k.shape[-3]):
        decayed = state * torch.exp(log_decay[..., m, :, None, :])
        predicted = torch.einsum("...hpn,...hn->...hp", decayed, k[..., m, :, :])
        delta = beta[..., m, :, None] * (v[..., m, :, :] - predicted)
        state = decayed + delta[..., None] * k[..., m, :, None, :]
        deltas.append(delta)
        before.append(decayed)
        after.append(state)
    return torch.stack(deltas, -3), torch.stack(before, -4), torch.stack(after, -4)


def _spans(log_decay: Tensor) -> Tensor:
    """Sum of the log decays after token j up to token m, each span by itself: a huge one elsewhere costs it nothing. -inf for j > m."""
    token = torch.arange(log_decay.shape[-3], device=log_decay.device)
    now, then, between = token[:, None, None], token[None, :, None], token[None, None, :]
    inside = ((then < between) & (between <= now)).to(torch.float64)
    past = (token[None, :] <= token[:, None])[:, :, None, None]
    return torch.where(past, torch.einsum("mji,...ihc->...mjhc", inside, log_decay), -torch.inf)


def _carried_back(log_decay: Tensor, beta: Tensor, k: Tensor, q: Tensor) -> Tensor:
    """Every q_m under the transitions of tokens j..m, for all j: [..., tokens + 1, tokens, heads, state_dim]."""
    count = k.shape[-3]
    back = torch.zeros_like(q)
    found = []
    for j in range(count, -1, -1):
        if j < count:
            back = back.clone()
            back[..., j, :, :] = q[..., j, :, :]
            found.append(back)
            key = k[..., j, None, :, :]
            met = beta[..., j, None, :] * (key * back).sum(-1)
            back = torch.exp(log_decay[..., j, None, :, :]) * (back - met[..., None] * key)
    found.append(back)
    return torch.stack(found[::-1], -4)


def _carried_on(log_decay: Tensor, beta: Tensor, k: Tensor) -> Tensor:
    """Every k_j under the transitions of the tokens after it: [..., tokens, heads, state_dim]."""
    on = torch.zeros_like(k)
    for m in range(k.shape[-3]):
        key = k[..., m, None, :, :]
        decayed = on * torch.exp(log_decay[..., m, None, :, :])
        met = beta[..., m, None, :] * (decayed * key).sum(-1)
        on = decayed - met[..., None] * key
        on[..., m, :, :] = k[..., m, :, :]
    return on
