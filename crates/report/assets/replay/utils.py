"""Rebuilds recorded calls of PyTorch operations. Needs Python 3.8 and torch, nothing else.

From top to bottom: element types, recorded inputs, overload resolution, values, one call.
Everything is decided against the PyTorch that is installed here, so a package works with any version of it.
"""

import re

import torch

# Recorded element type, without namespace and in lower case -> name in torch.
DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "long int": "int64", "long": "int64", "int": "int32", "short int": "int16", "short": "int16",
    "signed char": "int8", "char": "int8", "unsigned char": "uint8", "byte": "uint8",
    "unsigned short": "uint16", "unsigned int": "uint32", "unsigned long": "uint64", "bool": "bool",
    "complex<float>": "complex64", "complex<double>": "complex128", "complex<half>": "complex32",
    "complexfloat": "complex64", "complexdouble": "complex128", "complexhalf": "complex32",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e4m3fnuz": "float8_e4m3fnuz", "float8_e5m2": "float8_e5m2",
    "float8_e5m2fnuz": "float8_e5m2fnuz", "float8_e8m0fnu": "float8_e8m0fnu", "float4_e2m1fn_x2": "float4_e2m1fn_x2",
}

# Integer arguments that address memory: without a rule for them nothing safe can be made up.
ADDRESSES = re.compile(r"(^|_)(ind|idx|index|indices|tables?|slots?|mapping|ids|lens|seqlens?)(_|s?$)|seq_len")
OFFSETS = re.compile(r"cu_seq|(^|_)(offsets|offs|splits|indptr)$")

# In-place operations see their own output again; after this many calls they get fresh values.
RESET_EVERY = 16


# Backward operations and the forward one that makes their last argument from the second to the last but one.
INDICES_OF = {
    "aten::max_pool2d_with_indices_backward": "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices_backward": "aten::max_pool3d_with_indices",
}


class Skip(Exception):
    """The entry cannot be replayed here; the text says why."""


# ---------------------------------------------------------------- element types


def torch_dtype(recorded):
    """The torch type of a recorded element type."""
    name = DTYPES.get(re.sub(r"c10::|at::", "", recorded).strip().lower())
    if name is None:
        raise Skip("unknown element type %s" % recorded)
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise Skip("this PyTorch has no %s" % name)
    return dtype


def is_small_float(dtype):
    """Whether values have to be made in a wider type and cast."""
    return "float8" in str(dtype) or "float4" in str(dtype)


# ---------------------------------------------------------------- recorded inputs


class Recorded:
    """One recorded input: what it is and what it holds."""

    def __init__(self, raw):
        self.raw, self.type, self.dims = raw, raw["type"], raw["dims"]
        self.strides, text = raw["strides"], raw["concrete"]
        self.value = parse(text) if text else None
        if self.type == "TensorList":
            self.kind = "tensors" if self.dims else "nothing_of_list"
        elif text and isinstance(self.value, list):
            self.kind = "list"
        elif text:
            self.kind = "scalar"
        elif self.type == "" or self.type == "None":
            self.kind = "none"
        elif self.type in ("Scalar", "ScalarList"):
            self.kind = "unknown"
        else:
            self.kind = "tensor"


def parse(text):
    """`True`, `15`, `1e-05`, `-inf`, `[1, 1]`, `(2,2)`; None for what is no number."""
    text = text.strip()
    if text[:1] in ("[", "("):
        items = [parse(item) for item in text[1:-1].split(",") if item.strip()]
        return None if any(item is None for item in items) else items
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


# ---------------------------------------------------------------- overloads


class Argument:
    """An argument of a schema, as far as a call needs it."""

    def __init__(self, arg):
        self.name, self.kwarg_only = arg.name, bool(arg.kwarg_only)
        self.has_default = arg.has_default_value()
        self.default = arg.default_value if self.has_default else None
        kind = arg.type
        self.optional = kind.kind() == "OptionalType"
        if self.optional:
            kind = kind.getElementType()
        self.list = kind.kind() == "ListType"
        inner = kind.getElementType() if self.list else kind
        self.optional_items = inner.kind() == "OptionalType"
        self.kind = (inner.getElementType() if self.optional_items else inner).kind().replace("Type", "")
        alias = getattr(arg, "alias_info", None)
        self.written = bool(alias is not None and alias.is_write)
        self.is_out = bool(getattr(arg, "is_out", self.kwarg_only and self.written))

    def score(self, got):
        """2 exact, 1 convertible, None impossible (section 5.3 of the format)."""
        if got.kind == "none":
            if self.optional:
                return 2
            undefined = self.kind == "Tensor" and not self.list
            return 1 if undefined or self.kind in ("String", "DeviceObj", "Generator") or self.has_default else None
        if self.kind == "Tensor":
            if self.list:
                return 2 if got.kind == "tensors" and not self.optional_items else None
            return 2 if got.kind == "tensor" else None
        if got.kind not in ("scalar", "list"):
            return None
        return self.score_values(got)

    def score_values(self, got):
        values = got.value if isinstance(got.value, list) else [got.value]
        if got.value is None or (self.list and got.kind == "scalar" and self.kind not in ("Int", "SymInt")):
            return None
        if not self.list and got.kind == "list":
            return None
        rank = 2
        for value in values:
            one = self.score_value(value)
            if one is None:
                return None
            rank = min(rank, one)
        return 1 if self.list and got.kind == "scalar" else rank

    def score_value(self, value):
        is_bool, is_int = isinstance(value, bool), isinstance(value, int)
        if self.kind == "Bool":
            return 2 if is_bool else None
        if self.kind in ("Int", "SymInt", "ScalarType", "Layout", "MemoryFormat"):
            return 2 if is_int and not is_bool else None
        if self.kind in ("Float", "SymFloat"):
            return None if is_bool else (1 if is_int else 2)
        if self.kind == "Number":
            return 1 if is_bool else 2
        return None


class Overload:
    """An overload of an operation of the installed PyTorch."""

    def __init__(self, packet, name):
        self.name, self.call = name, getattr(packet, name)
        self.schema = self.call._schema
        self.args = [Argument(arg) for arg in self.schema.arguments]

    def rank(self, recorded):
        """How well the recorded inputs fit; larger is better, None is not at all."""
        missing = self.args[len(recorded):]
        if len(recorded) > len(self.args) or not all(arg.has_default or arg.optional for arg in missing):
            return None
        total = 0
        for arg, got in zip(self.args, recorded):
            one = arg.score(got)
            if one is None:
                return None
            total += one
        outs = sum(arg.is_out for arg in self.args)
        return (not missing, total, -outs, -len(missing), -len(self.args))


def overloads(name):
    """All overloads of `namespace::op` that are registered here."""
    space, _, op = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, space), op)
        names = packet.overloads()
    except (AttributeError, RuntimeError):
        raise Skip("op %s is not registered; import the package that provides it" % name)
    return [Overload(packet, overload) for overload in names]


def resolve(entry, recorded):
    """The overload to call: the one the entry names if it fits, else the one that fits best."""
    found = overloads(entry["op_name"])
    wanted = entry.get("overload")
    if wanted is not None and entry.get("replay_ir"):
        names = [arg["arg_name"] for part in ("list_pos_args", "list_kwargs") for arg in entry["replay_ir"][part]]
        for overload in found:
            same = [arg.name for arg in overload.args][: len(names)] == names
            if overload.name == (wanted or "default") and same and overload.rank(recorded) is not None:
                return overload
    ranked = [(overload.rank(recorded), overload) for overload in found]
    ranked = [(rank, overload) for rank, overload in ranked if rank is not None]
    if not ranked:
        schemas = "; ".join(str(overload.schema) for overload in found)
        raise Skip("no matching overload; is the PyTorch version compatible? Known here: " + schemas)
    best = max(rank for rank, _ in ranked)
    return min((overload for rank, overload in ranked if rank == best), key=lambda overload: overload.name)


# ---------------------------------------------------------------- values


def storage_elements(shape, strides):
    """Elements of the smallest storage that holds such a view."""
    if any(size == 0 for size in shape):
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def overlaps(shape, strides):
    """Whether two places of the view are the same memory, as far as an expanded dimension shows."""
    return any(size > 1 and stride == 0 for size, stride in zip(shape, strides))


class Builder:
    """Makes arguments. What had to be guessed is listed in `assumptions`."""

    def __init__(self, device, seed):
        self.device = torch.device(device)
        self.generator = torch.Generator(device=self.device)
        self.cpu_generator = torch.Generator()
        self.generator.manual_seed(seed)
        self.cpu_generator.manual_seed(seed)
        self.assumptions = []

    def tensor(self, name, value):
        """A tensor by its description: shape, dtype, strides, init, device, range."""
        shape, dtype = value["shape"], torch_dtype(value["dtype"])
        strides = value.get("strides")
        if not strides or len(strides) != len(shape):
            strides = contiguous_strides(shape)
        device = torch.device("cpu") if value.get("device") == "cpu" else self.device
        flat = self.flat(storage_elements(shape, strides), dtype, device, value)
        return flat.as_strided(shape, strides) if shape else flat.reshape(())

    def flat(self, count, dtype, device, value):
        init = value.get("init") or "normal"
        if init == "empty":
            return torch.empty(count, dtype=dtype, device=device)
        if init in ("zeros", "ones"):
            fill = torch.zeros if init == "zeros" else torch.ones
            return fill(count, dtype=dtype, device=device)
        if init == "offsets":
            return self.offsets(count, *value["range"]).to(dtype).to(device)
        generator = self.generator if device == self.device else self.cpu_generator
        if init in ("index", "uniform", "bool"):
            low, high = value.get("range") or ([0, 2] if init == "bool" else [0, 8])
            wide = torch.randint(low, max(high, low + 1), (count,), generator=generator, device=device)
            return wide.to(dtype)
        return random_floats(count, dtype, device, generator, init)


    def offsets(self, count, low, high):
        """Rising numbers up to `high`: evenly spaced from 0, else the ends of groups that tokens fall into at random.

        Ends are multiples of 16, which some kernels ask for.
        """
        if low == 0 or count == 1:
            return torch.linspace(low if count > 1 else high, high, count, dtype=torch.float64).round()
        groups = torch.randint(0, count, (high,), generator=self.cpu_generator)
        ends = torch.bincount(groups, minlength=count).cumsum(0) // 16 * 16
        ends[-1] = high
        return ends


def random_floats(count, dtype, device, generator, init):
    if dtype.is_complex:
        real = torch.float64 if dtype == torch.complex128 else torch.float32
        parts = torch.empty(count, 2, dtype=real, device=device).normal_(generator=generator)
        return torch.view_as_complex(parts).to(dtype)
    if dtype in (torch.float32, torch.float64) or (device.type != "cpu" and dtype in (torch.float16, torch.bfloat16)):
        wide = torch.empty(count, dtype=dtype, device=device)
    else:
        wide = torch.empty(count, dtype=torch.float32, device=device)
    if init == "positive":
        wide.uniform_(0.1, 1.0, generator=generator)
    else:
        wide.normal_(generator=generator)
    if dtype == getattr(torch, "float4_e2m1fn_x2", None):
        return torch.randint(0, 256, (count,), dtype=torch.uint8, device=device, generator=generator).view(dtype)
    return wide.to(dtype)


def is_number(got):
    """Whether a tensor has no dimensions and a type of Python's own: it may be a number of the program."""
    return not got.dims and torch_dtype(got.type) in (torch.float64, torch.int64)


def takes_number(arg, names):
    """Whether PyTorch makes a tensor of a Python number that is given for an argument; `names` are those of all.

    Everything else lies on the device: an index, a state, a sum, the source of a copy, and what is written to.
    """
    left = arg.name == "self" and not {"exponent", "other"}.isdisjoint(names)
    return not arg.written and (left or arg.name in ("exponent", "other", "value"))


def guess(arg, got, recorded, names):
    """Description of a tensor for which the entry says nothing: the operation was not known when it was written."""
    shape, note = got.dims, None
    dtype = torch_dtype(got.type)
    wrapped = takes_number(arg, names) and is_number(got)
    wrapped = wrapped and any(r.kind == "tensor" and not is_number(r) for r in recorded)
    value = {"shape": shape, "dtype": got.type, "strides": got.strides, "device": "cpu" if wrapped else "gpu"}
    if wrapped:
        value["init"] = "ones"
    elif arg.is_out:
        value["init"] = "empty"
    elif dtype == torch.bool:
        value["init"] = "bool"
    elif dtype.is_floating_point or dtype.is_complex:
        value["init"] = "positive" if re.search(r"var|rstd|scale", arg.name) else "normal"
    elif OFFSETS.search(arg.name):
        tokens = next((r.dims[0] for r in recorded if r.kind == "tensor" and len(r.dims) > 1), 0)
        value.update(init="offsets", range=[0, tokens])
        note = "offsets %s made up: evenly spaced from 0 to %d" % (arg.name, tokens)
    elif ADDRESSES.search(arg.name):
        raise Skip("Index argument %s: no safe values known." % arg.name)
    else:
        value["init"] = "zeros"
        note = "integer argument %s filled with zeros" % arg.name
    return value, note


def hints(entry):
    """What the entry says about its arguments, by name."""
    ir = entry.get("replay_ir")
    parts = (ir["list_pos_args"] + ir["list_kwargs"]) if ir else []
    return {part["arg_name"]: part for part in parts}


class Call:
    """A resolved call: overload, arguments, and how to give written arguments fresh values."""

    def __init__(self, entry, device, seed):
        self.recorded = [Recorded(raw) for raw in entry["inputs"]]
        self.entry, self.seed, self.device = entry, seed, torch.device(device)
        self.overload = resolve(entry, self.recorded)
        self.builder = Builder(device, seed)
        self.hints = hints(entry)
        self.casts = (entry.get("settings") or {}).get("autocast")
        self.args, self.kwargs, self.written = self.build()
        if entry["op_name"] in INDICES_OF and self.overload.name == "default":
            self.args[-1] = self.real_indices(INDICES_OF[entry["op_name"]])
        self.saved = [tensor.clone() for tensor in self.written]
        self.calls = 0

    @property
    def assumptions(self):
        return self.builder.assumptions

    def build(self):
        positional, keyword, written = [], {}, []
        for index, arg in enumerate(self.overload.args):
            got = self.recorded[index] if index < len(self.recorded) else None
            if got is None:
                self.builder.assumptions.append("argument %s is not recorded; default used" % arg.name)
                continue
            value = self.value(arg, got)
            if arg.written and not arg.is_out:
                tensors = value if isinstance(value, (list, tuple)) else [value]
                written += [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]
            if arg.kwarg_only:
                keyword[arg.name] = value
            else:
                positional.append(value)
        return positional, keyword, written

    def real_indices(self, forward):
        """Places of the largest elements of the random input: random places would be quicker to add to."""
        with torch.no_grad():
            made = overloads(forward)
            default = next(overload for overload in made if overload.name == "default")
            return default.call(*self.args[1:-1])[1]

    def value(self, arg, got):
        if got.kind == "tensor":
            hint = self.hints.get(arg.name)
            if hint is not None and hint["kind"] == "tensor":
                value = hint["value"]
            else:
                value, note = guess(arg, got, self.recorded, [other.name for other in self.overload.args])
                if note:
                    self.builder.assumptions.append(note)
            if arg.written and overlaps(got.dims, got.strides):
                raise Skip("Argument %s is written to and its elements overlap." % arg.name)
            return self.builder.tensor(arg.name, value)
        if got.kind == "tensors":
            return self.tensors(arg, got)
        if got.kind == "none":
            return self.nothing(arg)
        return self.number(arg, got)

    def tensors(self, arg, got):
        hint = self.hints.get(arg.name)
        if hint is not None and hint["kind"] == "tensor_list":
            return [self.builder.tensor(arg.name, item) for item in hint["value"]["items"]]
        dtype = next((r.type for r in self.recorded if r.kind == "tensor"), "float")
        self.builder.assumptions.append("element type of the tensors in %s is not recorded: %s" % (arg.name, dtype))
        strides = got.strides if len(got.strides) == len(got.dims) else [None] * len(got.dims)
        items = zip(got.dims, strides)
        return [self.builder.tensor(arg.name, {"shape": d, "strides": s, "dtype": dtype}) for d, s in items]

    def nothing(self, arg):
        if arg.kind == "String" and not arg.list:
            return self.text(arg)
        if arg.kind == "DeviceObj" and not arg.list:
            return self.device
        if arg.optional:
            return None
        if arg.has_default:
            return arg.default
        if arg.kind in ("Generator", "Tensor") and not arg.list:
            return None
        raise Skip("Argument %s of type %s cannot be rebuilt." % (arg.name, arg.kind))

    def text(self, arg):
        """No text is recorded, so whatever is taken is told; the entry tells of what it names itself."""
        hint = self.hints.get(arg.name)
        if hint is not None and hint["kind"] == "str":
            return hint["value"]
        if not arg.optional and not arg.has_default:
            raise Skip("Argument %s of type %s cannot be rebuilt." % (arg.name, arg.kind))
        used = "none" if arg.optional else "default %r" % arg.default
        self.builder.assumptions.append("string argument %s is not recorded; %s used" % (arg.name, used))
        return None if arg.optional else arg.default

    def number(self, arg, got):
        value = got.value
        if arg.name == "layout" and value not in (0, None):
            raise Skip("Tensor layout not recorded.")
        if arg.kind in ("Float", "SymFloat"):
            return [float(item) for item in value] if isinstance(value, list) else float(value)
        if arg.list and not isinstance(value, list):
            return [value]
        return value

    def __call__(self):
        if self.casts:
            with torch.autocast(self.device.type, dtype=self.cast_type()):
                return self.overload.call(*self.args, **self.kwargs)
        return self.overload.call(*self.args, **self.kwargs)

    def cast_type(self):
        """Type of automatic mixed precision; not every CPU can cast to float16."""
        return torch.bfloat16 if self.device.type == "cpu" else getattr(torch, self.casts)

    def reset_if_due(self):
        """Outside the timed region: in-place operations must neither overflow nor fade to denormals."""
        self.calls += 1
        if self.calls % RESET_EVERY == 0:
            self.reset()

    def reset(self):
        """Gives written arguments their first values again."""
        self.calls = 0
        for tensor, saved in zip(self.written, self.saved):
            tensor.copy_(saved)

    def tensors_of(self):
        """All tensors of the arguments."""
        flat = []
        for value in list(self.args) + list(self.kwargs.values()):
            flat += value if isinstance(value, (list, tuple)) else [value]
        return [tensor for tensor in flat if isinstance(tensor, torch.Tensor)]


def needed_bytes(entry):
    """Bytes of all tensor arguments, by their storage; copies of written ones not counted."""
    total = 0
    for raw in entry["inputs"]:
        got = Recorded(raw)
        if got.kind == "tensor":
            strides = got.strides if len(got.strides) == len(got.dims) else contiguous_strides(got.dims)
            size = torch.empty(0, dtype=torch_dtype(got.type)).element_size()
            total += storage_elements(got.dims, strides) * size
    return total
