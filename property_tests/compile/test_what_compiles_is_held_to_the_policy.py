"""Launches are compiled for sm_90 without a GPU, and their PTX is held to the declared policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from replaycheck.compile import Compiled, compile_launches, compile_measurements, ptx
from replaycheck.contract.claims import Claims
from replaycheck.interpreter.recorder import Launch
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.policy import Path, Policy

Results = dict[str, Compiled]


def _claims(*, ftz: bool = True, **path: str) -> Claims:
    return Claims(name="a kernel", policy=Policy(paths={"step": Path(**path)}, ftz=ftz))


def _measured(results: Results, name: str, claims: Claims) -> Measurement:
    (measurement,) = compile_measurements([results[name]], claims)
    assert measurement.guarantee == "compile"
    return measurement


@pytest.mark.parametrize("name", ["plain", "unaligned", "types", "tuple", "heuristics", "autotuned", "functions"])
def test_what_the_compiler_takes_passes(compiled: Results, name: str) -> None:
    assert compiled[name].error is None and ".target sm_90a" in compiled[name].ptx
    measurement = _measured(compiled, name, _claims())
    assert measurement.passed and not measurement.suspicious


def test_launch_options_reach_the_compiler(compiled: Results) -> None:
    assert ".reqntid 64" in compiled["plain"].ptx and ".reqntid 128" in compiled["unaligned"].ptx


def test_a_dot_too_short_for_the_gpu_is_a_compile_error(compiled: Results) -> None:
    measurement = _measured(compiled, "short", _claims(token="tf32"))
    assert not measurement.passed
    assert measurement.diagnosis.startswith("product does not compile: CompilationError: Input shapes should have")
    assert "\n" not in measurement.diagnosis


def test_a_variable_made_in_one_branch_only_is_a_compile_error(compiled: Results) -> None:
    assert "later" in _measured(compiled, "branch", _claims()).diagnosis


def test_a_tf32_dot_under_an_fp32_policy_fails(compiled: Results) -> None:
    measurement = _measured(compiled, "tf32", _claims())
    assert measurement.value == compiled_mma(compiled, "tf32") > 0
    assert not measurement.passed
    assert "tf32 tensor-core products, where the policy declares fp32" in measurement.diagnosis


def compiled_mma(results: Results, operand: str) -> int:
    return ptx.read(results[operand].ptx).mma[operand]


@pytest.mark.parametrize(("name", "product"), [
    ("tf32", "tf32"), ("tf32x3", "tf32x3"), ("bf16", "bf16"), ("bf16", "bf16x3"), ("ieee", "fp32")])
def test_declared_products_pass(compiled: Results, name: str, product: str) -> None:
    measurement = _measured(compiled, name, _claims(token=product, accumulator="tensor"))
    assert measurement.passed and not measurement.suspicious


@pytest.mark.parametrize(("name", "product"), [("tf32x3", "fp32"), ("bf16", "tf32"), ("tf32", "bf16x3"), ("fp16 sums", "bf16")])
def test_undeclared_products_fail(compiled: Results, name: str, product: str) -> None:
    assert not _measured(compiled, name, _claims(readout=product, accumulator="fp16")).passed


def test_plain_tf32_under_a_policy_of_rounded_tf32_fails(compiled: Results) -> None:
    for product in ("tf32x3", "tf32_rna"):
        assert "never rounded to tf32" in _measured(compiled, "tf32", _claims(score=product)).diagnosis


def test_half_precision_sums_must_be_declared(compiled: Results) -> None:
    assert "sums in fp16" in _measured(compiled, "fp16 sums", _claims(value="fp16")).diagnosis
    assert _measured(compiled, "fp16 sums", _claims(value="fp16", accumulator="fp16")).passed


def test_tensor_core_sums_called_fp32_are_suspicious(compiled: Results) -> None:
    measurement = _measured(compiled, "bf16", _claims(token="bf16"))
    assert measurement.passed and measurement.suspicious


def test_flushing_must_be_declared(compiled: Results) -> None:
    assert not _measured(compiled, "functions", _claims(ftz=False)).passed
    assert _measured(compiled, "ieee", _claims(ftz=False)).passed


def test_a_kernel_that_cannot_be_imported_again_is_not_blamed(compiled: Results) -> None:
    assert not compiled["local"].tried
    measurement = _measured(compiled, "local", _claims())
    assert measurement.passed and measurement.suspicious and "defined inside a function" in measurement.diagnosis


def test_a_launch_not_reached_in_time_is_not_blamed(recorded: dict[str, list[Launch]]) -> None:
    (result,) = compile_launches(recorded["plain"], timeout=0.01)
    assert result.error == "not compiled within 0.01 s" and not result.tried


def test_a_missing_source_file_is_named(recorded: dict[str, list[Launch]]) -> None:
    (result,) = compile_launches([replace(recorded["plain"][0], file="/no/such/file.py", module="nowhere")])
    assert not result.tried and result.error == "its source /no/such/file.py is not a file"


def test_nothing_to_compile_starts_nothing() -> None:
    assert compile_launches([]) == []


@pytest.mark.parametrize(("target", "timeout"), [("gfx942", 1.0), ("sm_90", 0.0)])
def test_bad_targets_and_timeouts_are_named(target: str, timeout: float) -> None:
    with pytest.raises(ValueError, match="target|timeout"):
        compile_launches([], target=target, timeout=timeout)


_TEXT = """
//
.version 8.7
.target sm_90a
.visible .entry k( .param .u64 .ptr .global .align 1 k_param_0 )
{
	.reg .pred 	%p<3>;
	ld.param.b64 	%rd1, [k_param_0];
$L__tmp0:
	@%p1 bra 	$L__BB0_2;
	// begin inline asm
	cvt.rna.tf32.f32 %r1, %r2;
	// end inline asm
	@!%p2 fma.rn.ftz.f32 	%r3, %r1, %r2, %r1;  // fma in a comment: fma.rn.f32
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 	{ %r1, %r2 }, { %r3 }, { %r4 }, { %r5 };
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1,%r2}, %rd1, %rd2, 1, 1, 1, 0, 1;
	mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1}, {%r2}, {%r3}, {%r4};
	tanh.approx.f32 	%r1, %r2;
	div.full.f32 	%r1, %r2, %r3;
	atom.global.gpu.acq_rel.add.f32 %r1, [ %rd1 + 0 ], %r2;
	{ .reg .pred %q; setp.ne.b32 %q, %r1, 0; red.global.add.f32 [%rd1], %r2; }
	ret;
}
"""


def test_ptx_is_read_instruction_by_instruction() -> None:
    read = ptx.read(_TEXT)
    assert read.mma == {"tf32": 1, "bf16": 1, "f16": 1} and read.mma_sums == {"f32": 2, "f16": 1}
    assert (read.tf32_roundings, read.ftz, read.fma, read.atomics) == (1, 1, 1, 2)
    assert read.approximate == {"tanh.approx.f32": 1, "div.full.f32": 1}
    assert read.opcodes["setp.ne.b32"] == read.opcodes["bra"] == 1


def test_a_function_without_a_table_fails(compiled: Results) -> None:
    text = "\n\ttanh.approx.f32 %r1, %r2;\n\tex2.approx.f32 %r1, %r2;\n"
    (measurement,) = compile_measurements([replace(compiled["plain"], ptx=text)], _claims())
    assert not measurement.passed and "tanh.approx.f32" in measurement.diagnosis and "ex2" not in measurement.diagnosis


def test_every_launch_is_measured(compiled: Results) -> None:
    everything: Sequence[Compiled] = list(compiled.values())
    assert {m.place["kernel"] for m in compile_measurements(everything, _claims())} == {c.launch.qualname for c in everything}
