"""Production Triton kernels for recurrent-state decode. Needs torch and triton only.

    from replaycheck_kernels import cursors, mamba2, pool
    layer = pool.allocate(pool.Geometry(heads=128, head_dim=64, state_dim=128, groups=8), slots=512, state=torch.float32, capacity=16,
                          allocator=pool.on_device("cuda"))
    mamba2.replay(layer, slots, x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, out=out)     # every layer of a stack
    cursors.advance(layer.ring.cursor, slots, capacity=16)                                      # once a forward

Speculative decode, where `starts` says where the tokens of a row begin and `counts` how many of them stay, all on the device:

    layer = pool.allocate(..., capacity=16, window=4, ...)
    mamba2.verify(layer, slots, starts, x=x, ..., out=out)                                      # every layer of a stack
    cursors.commit(layer.ring.cursor, layer.ring.origin, slots, starts, counts, capacity=16, window=4)

Gated DeltaNet, and with channels=True Kimi Delta Attention:

    layer = delta.allocate(pool.Geometry(heads=32, head_dim=128, state_dim=128, groups=16), channels=False, slots=512,
                           state=torch.float32, ring=torch.float32, capacity=16, allocator=pool.on_device("cuda"))
    delta.replay(layer, slots, q=q, k=k, v=v, g=a, b=b, A_log=A_log, dt_bias=dt_bias, form=delta.Form(scale=scale), out=out)
    cursors.advance(layer.ring.cursor, slots, capacity=16)
"""

from . import cursors, delta, mamba2, pool

__all__ = ["cursors", "delta", "mamba2", "pool"]
