"""Checks a result against the CPU's, and builds the backward pass of a call."""

import torch

from utils import Skip, is_small_float

# Largest relative error by the bits of the result's type; sums over long rows need room.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-3, torch.float16: 2e-2, torch.bfloat16: 6e-2}
# Elements above which the CPU would take too long.
MOST_ELEMENTS = 2 ** 28


def flat(value):
    """The tensors of a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    return []


def on_cpu(value, wide):
    """The argument on the CPU, with 16-bit and 8-bit floats as `wide`."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().to("cpu", copy=True)
        narrow = copy.is_floating_point() and (copy.element_size() < 4 or is_small_float(copy.dtype))
        return copy.to(wide) if narrow else copy
    if isinstance(value, (list, tuple)):
        return [on_cpu(item, wide) for item in value]
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value


def verify(call):
    """Largest error of the result, relative to its largest element, against the same operation on the CPU."""
    if any(tensor.numel() > MOST_ELEMENTS for tensor in call.tensors_of()):
        return {"ok": None, "text": "not verified: too large for the CPU"}
    if any(word in call.overload.schema.name for word in ("rand", "normal", "bernoulli", "uniform_", "dropout")):
        return {"ok": None, "text": "not verified: random result"}
    try:
        wide = [on_cpu(arg, torch.float32) for arg in call.args]
        keyword = {name: on_cpu(arg, torch.float32) for name, arg in call.kwargs.items()}
        expected = flat(call.overload.call(*wide, **keyword))
    except Exception as error:  # noqa: BLE001 - operations fail in many ways where there is no CPU kernel
        return {"ok": None, "text": "not verified: no CPU kernel (%s)" % str(error).split("\n")[0][:100]}
    # Cloned, since in-place operations return what is reset below.
    got = [tensor.clone() for tensor in flat(call())]
    for tensor, saved in zip(call.written, call.saved):
        tensor.copy_(saved)
    worst, limit = 0.0, 0.0
    for one, other in zip(got, expected):
        # What the CPU computes in a wider type may be too large for the type of the result.
        narrow = other.to(one.dtype).to(torch.float64) if one.is_floating_point() else other.to(torch.float64)
        one, other = one.detach().to("cpu").to(torch.float64), other.to(torch.float64)
        if one.shape != other.shape:
            return {"ok": False, "text": "WRONG: shape %s, expected %s" % (list(one.shape), list(other.shape))}
        finite = torch.isfinite(other) & torch.isfinite(one)
        if bool((torch.isfinite(narrow) != torch.isfinite(one)).any()):
            return {"ok": False, "text": "DIFFERS from the CPU: not finite in other places"}
        if not bool(finite.any()):
            continue
        scale = float(other[finite].abs().max()) or 1.0
        worst = max(worst, float((one[finite] - other[finite]).abs().max()) / scale)
    for tensor in got:
        limit = max(limit, TOLERANCE.get(tensor.dtype, 0.25 if tensor.is_floating_point() else 0.0))
    return {"ok": worst <= limit, "error": worst, "text": "%s: error %.1e of the largest element (limit %.0e)" % (
        "agrees with the CPU" if worst <= limit else "DIFFERS from the CPU", worst, limit)}


class Gradient:
    """The backward pass of a call, called like a call."""

    def __init__(self, outputs, inputs):
        self.outputs, self.inputs = outputs, inputs
        self.gradients = [torch.randn_like(output) for output in outputs]

    def __call__(self):
        return torch.autograd.grad(self.outputs, self.inputs, self.gradients, retain_graph=True, allow_unused=True)

    def reset_if_due(self):
        """Nothing is written to."""


def backward_call(call):
    """The backward pass with random gradients; `Skip` where there is none."""
    if call.written or any(arg.is_out for arg in call.overload.args):
        raise Skip("writes to its arguments, so it has no gradient of its own")
    inputs = [t for t in call.tensors_of() if t.is_floating_point() and t.device.type == call.device.type]
    inputs = [tensor for tensor in inputs if not is_small_float(tensor.dtype)]
    for tensor in inputs:
        tensor.requires_grad_(True)
    try:
        with torch.enable_grad():
            outputs = [out for out in flat(call()) if out.requires_grad and out.grad_fn is not None]
        if not outputs:
            raise Skip("no gradient")
        gradient = Gradient(outputs, inputs)
        gradient()
        return gradient
    except (RuntimeError, NotImplementedError) as error:
        raise Skip("no gradient: " + str(error).split("\n")[0][:150])
