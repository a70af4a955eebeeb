# SPDX-License-Identifier: Apache-2.0
"""The table of misuses: how tg-run is called, and how that has to end."""
from dataclasses import dataclass, field

OK, INPUT, USAGE, NUMERIC, DEVICE = 0, 1, 2, 3, 4


@dataclass
class Row:
    name: str
    args: list
    code: int
    says: str                                # a pattern of the one line of error
    env: dict = field(default_factory=dict)
    lock: str = ""                           # a run that another process trains in meanwhile
    disk: bool = False                       # with a small disk mounted at disk/
    prints: str = ""                         # a pattern of what may stand on stdout
    leaves: str = ""                         # a pattern of names that may be made


I = "--device=interp"
LEARN = ["good.tgir", I, "--pipeline=append-grad,append-adam"]
GIVEN = "--data=x=@x.npy,y=@y.npy"


def train(*args, data=GIVEN, keeps=False):
    """Two steps of a good training, but for `args`, which also stand in place of flags of the same name."""
    names = {arg.split("=")[0] for arg in args}
    flags = [*LEARN, *([data] if data else []), *([] if keeps else ["--run-dir=none"]), "--steps=2"]
    return ["train", *[flag for flag in flags if flag.split("=")[0] not in names or flag == data], *args]


def bare(*args):
    """A training without a length."""
    return ["train", *LEARN, GIVEN, "--run-dir=none", *args]


def fed(source):
    return train(data=f"--data=x={source},y=@y.npy")


def spoken(data, *args):
    return ["train", "gpt.tgir", I, "--run-dir=none", "--steps=2", f"--data={data}", *args]


def resumed(run, *args):
    return ["train", f"--resume={run}", "--steps=6", *args]


def call(*args):
    return ["exec", "good.tgir", I, *args]


COMMAND_LINE = [
    Row("verb misspelt", ["trian", "good.tgir"], USAGE, r"no verb 'trian'; did you mean train\?"),
    Row("verb unknown", ["frobnicate", "good.tgir"], USAGE, r"no verb 'frobnicate'; .*--help"),
    Row("verb unknown, alone", ["frobnicate"], INPUT, r"cannot open frobnicate: No such file"),
    Row("flag unknown", train("--qqqq=1"), USAGE, r"unknown flag --qqqq; see tg-run train --help"),
    Row("flag misspelt", bare("--step=3"), USAGE, r"unknown flag --step; did you mean --steps\?"),
    Row("flag of another verb", ["devices", "--steps=3"], USAGE, r"unknown flag --steps; see tg-run devices --help"),
    Row("word too many", train("good2.tgir"), USAGE, r"good2\.tgir"),
    Row("value is no number", bare("--steps=many"), USAGE, r"--steps.*many"),
    Row("value negative", bare("--steps=-5"), USAGE, r"--steps.*-5"),
    Row("value zero", bare("--steps=0"), USAGE, r"--steps.*0"),
    Row("value too large", bare("--steps=99999999999999999999"), USAGE, r"--steps.*99999999999999999999"),
    Row("value fractional", bare("--steps=1.5"), USAGE, r"--steps=1\.5 cannot be read as a number of its kind"),
    Row("value missing", bare("--steps"), USAGE, r"--steps"),
    Row("one name's extent twice", train("--set-dim=time=8", "--set-dim", "time=16"), USAGE,
        r"--set-dim says two values for time: 'time=8' and 'time=16'"),
    Row("one parameter twice", train("--set=w=0", "--set=w=1"), USAGE, r"--set says two values for w: 'w=0' and 'w=1'"),
    Row("value empty", bare("--out=", "--steps=3"), USAGE, r"--out= has no value"),
    Row("value empty, last", bare("--out="), USAGE, r"--out= has no value"),
    Row("seed negative", train("--seed=-1"), USAGE, r"--seed.*-1"),
    Row("rate negative", train("--lr=-1"), USAGE, r"--lr=-1: schedule -1 is negative|--lr=-1: schedule -1: -1 is negative"),
    Row("rate of an unknown form", train("--lr=cosin(1e-3,0,5)"), USAGE, r"unknown schedule cosin.*cosine\(peak, final, steps\)"),
    Row("rate with words missing", train("--lr=warmup(5)"), USAGE, r"is not warmup\(steps, after\) or warmup\(peak, steps, after\)"),
    Row("range of a number", bare("--steps=-5"), USAGE, r"--steps: expected a number of at least 1, not -5"),
    Row("range of a fraction", train("--val-fraction=2"), USAGE, r"--val-fraction: expected a number from 0 to 0.9, not 2"),
    Row("rate no number", train("--lr=nan"), USAGE, r"--lr.*nan"),
    Row("rate infinite", train("--lr=inf"), USAGE, r"--lr.*inf"),
    Row("word out of a set", train("--progress=loud"), USAGE, r"--progress.*loud.*bar"),
    Row("fraction above one", train("--val-fraction=2"), USAGE, r"--val-fraction.*2"),
    Row("time without a unit of time", train("--max-time=9q"), USAGE, r"--max-time is '9q': expected a time such as"),
    Row("interval of nothing", train("--ckpt-every=0"), USAGE, r"--ckpt-every is '0': expected steps"),
    Row("metrics of no kind", train("--metrics=xml", "--run-dir=new", keeps=True), USAGE, r"--metrics.*xml.*jsonl"),
    Row("steps and epochs", train("--epochs=1"), USAGE, r"--steps excludes --epochs"),
    Row("value in base 8", bare("--steps=010"), USAGE, r"--steps.*010"),
    Row("flag given twice", bare("--steps=1", "--steps=2"), USAGE, r"--steps is given more than once"),
    Row("epochs without an end", ["train", *LEARN, "--run-dir=none", "--data=x=0,y=0", "--epochs=2"], USAGE,
        r"--epochs: this data has no end"),
    Row("evaluation of nothing", train("--eval-every=1"), USAGE, r"--eval-every: there is nothing to evaluate on"),
    Row("best of nothing", train("--keep-best"), USAGE, r"--keep-best: there is nothing to evaluate on"),
    Row("two trainings' data", train("--data=x=0,y=0"), USAGE, r"--data says two sources for training"),
    Row("start from two places", train("--init-from=run", "--weights=run"), USAGE, r"--weights excludes --init-from"),
    Row("auto resumes nowhere", bare("--resume=auto", "--steps=2"), USAGE, r"--resume=auto wants a --run-dir"),
]

CONFIGURATION = [
    Row("config is not there", train("--config=none.toml"), INPUT, r"cannot open none\.toml: No such file"),
    Row("config has an unknown key", train("--config=unknown.toml"), INPUT, r"unknown\.toml:2: unknown option 'stpes'; did you mean 'steps'"),
    Row("config has a bad value", bare("--config=value.toml"), INPUT, r"--steps.*many"),
    Row("config is no configuration", train("--config=syntax.toml"), INPUT, r"syntax\.toml:1: expected a line such as steps = 200"),
    Row("config has an option twice", bare("--config=twice.toml"), INPUT,
        r"twice\.toml:3: 'steps' stands in line 1 already"),
    Row("config has a byte that is no text", bare("--config=nul.toml"), INPUT, r"nul\.toml:2: unexpected byte 0x00"),
    Row("config is a folder", train("--config=folder"), INPUT, r"folder.*directory"),
]

MODULES = [
    Row("module is not there", ["train", "none.tgir", GIVEN], INPUT, r"cannot open none\.tgir: No such file"),
    Row("module is a run", ["train", "run", GIVEN], USAGE, r"run is a run: tg-run train --resume=run goes on with it"),
    Row("module is a run, to call", call("run")[:1] + ["run", I], USAGE, r"tg-run exec run/model\.tgir --weights=run"),
    Row("module is a run, to look into", ["explain-memory", "run"], USAGE, r"run is a run: tg-run explain-memory run/model\.tgir … takes its model$"),
    Row("workload misspelt", ["train", "gpt-nnao", GIVEN], INPUT, r"cannot open gpt-nnao: .*did you mean the workload gpt-nano\?"),
    Row("optimizer is missing", ["train", "good.tgir", GIVEN, I, "--run-dir=none", "--pipeline=append-grad"], INPUT,
        r"@train of good\.tgir updates nothing after --pipeline=append-grad"),
    Row("module is a folder", ["train", "folder", GIVEN], INPUT, r"folder is a directory"),
    Row("module may not be read", ["train", "closed.tgir", GIVEN], INPUT, r"closed\.tgir: Permission denied"),
    Row("module is binary", ["train", "binary.tgir", GIVEN], INPUT, r"binary\.tgir is not text"),
    Row("module is not UTF-8", ["train", "utf8.tgir", GIVEN], INPUT, r"utf8\.tgir:1:10: error: "),
    Row("module is empty", ["train", "blank.tgir", GIVEN], INPUT, r"blank\.tgir:\d+:\d+: error: expected"),
    Row("module is of standard input, empty", ["exec"], INPUT, r"<stdin>:\d+:\d+: error: expected"),
    Row("module is cut off", ["train", "cut.tgir", GIVEN], INPUT, r"cut\.tgir:\d+:\d+: error: "),
    Row("module has a syntax error", ["train", "syntax.tgir", GIVEN], INPUT, r"syntax\.tgir:\d+:\d+: error: .*retrun"),
    Row("module has no @train", ["train", "no-train.tgir", GIVEN], INPUT, r"no-train\.tgir has no function @train"),
    Row("module learns nothing", ["train", "good.tgir", GIVEN, I], INPUT, r"@train of good\.tgir updates nothing"),
    Row("module is of a late stage", ["train", "late.tgir", GIVEN, "--pipeline=append-grad", I], INPUT,
        r"append-grad.*stage"),
    Row("pass is unknown", train("--pipeline=append-gard"), USAGE, r"append-gard.*append-grad"),
    Row("pass's option is unknown", train("--pipeline=append-grad,append-adam{rate=1}"), USAGE, r"rate.*lr"),
    Row("pass's option has a bad value", train("--pipeline=append-grad,append-adam{lr=x}"), USAGE, r"lr.*x"),
    Row("configuration is empty", ["train", "good.tgir", GIVEN, "--config=blank.tgir"], INPUT, r"blank\.tgir is empty"),
    Row("pass of a configuration is unknown", ["train", "good.tgir", GIVEN, "--config=passes.toml"], INPUT,
        r"passes\.toml: no pass is named 'append-gard'"),
    Row("passes are not closed", train("--pipeline=append-grad,append-adam{lr=1"), USAGE, r"expected '}' behind append-adam's options"),
]

DATA = [
    Row("data is not there", train(data=""), USAGE, r"say where the inputs come from: --data"),
    Row("data to train on is not there", train(data="--data=val=x=@x.npy,y=@y.npy"), USAGE, r"say where the inputs come from: --data"),
    Row("data for no input", train(data="--data=x=0,y=0,z=0"), INPUT, r"there is data for 'z', which is no input"),
    Row("data for one input of two", train(data="--data=x=0"), INPUT, r"input 'y' .* has no data"),
    Row("two sources for one input", train(data="--data=x=0,y=0,x=1"), USAGE, r"there are two sources for 'x'"),
    Row("data's file is not there", fed("@none.npy"), INPUT, r"none\.npy: .*No such file"),
    Row("data is a folder", fed("@folder"), USAGE, r"'x': .*@FILE\.npy"),
    Row("data is a folder by name", fed("@folder/"), USAGE, r"'x': .*@FILE\.npy"),
    Row("data may not be read", fed("@closed.npy"), INPUT, r"closed\.npy: .*Permission denied"),
    Row("data of another type", fed("@ints.npy"), INPUT, r"ints\.npy holds 8x2xi32, but tensor<4x2xf32> is expected"),
    Row("data of complex numbers", fed("@complex.npy"), INPUT, r"complex\.npy: .*c8"),
    Row("data of another shape", fed("@wide.npy"), INPUT, r"wide\.npy holds 8x3xf32, but 'x' is tensor<4x2xf32>"),
    Row("data of fewer rows than the other", fed("@z.npy"), INPUT, r"'x' has 6 rows and 'y' 8"),
    Row("data of fewer rows than a batch", train(data="--data=x=@few.npy,y=@few.npy"), INPUT, r"few\.npy.* 3 rows.* 4"),
    Row("data of nothing but evaluation", train("--val-fraction=0.75"), INPUT, r"--val-fraction|rows"),
    Row("npy in Fortran's order", fed("@fortran.npy"), INPUT, r"fortran\.npy: .*[Ff]ortran"),
    Row("npy of objects", fed("@object.npy"), INPUT, r"object\.npy: .*\|O"),
    Row("npy of big-endian numbers", fed("@big-endian.npy"), INPUT, r"big-endian\.npy: .*>f4"),
    Row("npy cut off", fed("@cut.npy"), INPUT, r"cut\.npy: expected 64 bytes of elements, got 56"),
    Row("npy's header cut off", fed("@header.npy"), INPUT, r"header\.npy: the \.npy header is cut off"),
    Row("npy empty", fed("@nothing.npy"), INPUT, r"nothing\.npy: "),
    Row("npy of text", fed("@text.npy"), INPUT, r"text\.npy: expected a \.npy array, got another format"),
    Row("npz without the key", fed("@d.npz:z"), INPUT, r"d\.npz: expected a key of the archive, got 'z'; it has: x, y"),
    Row("npz of two keys", fed("@d.npz"), INPUT, r"d\.npz: expected a key of the archive"),
    Row("npz cut off", fed("@cut.npz:x"), INPUT, r"cut\.npz: expected a \.npz archive"),
    Row("idx of another magic", fed("@bad-idx2-ubyte/255"), INPUT, r"bad-idx2-ubyte: expected an IDX array"),
    Row("idx cut off", fed("@cut-idx2-ubyte/255"), INPUT, r"cut-idx2-ubyte: expected 16 bytes of elements, got 13"),
    Row("idx without a divisor", fed("@i-idx2-ubyte"), INPUT, r"i-idx2-ubyte holds 8x2xu8.*a divisor"),
    Row("idx divided by nothing", fed("@i-idx2-ubyte/0"), USAGE, r"expected a divisor other than 0"),
    Row("gzip cut off", fed("@cut-idx2-ubyte.gz/255"), INPUT, r"cut-idx2-ubyte\.gz: the gzip data is cut off"),
    Row("gzip of nothing", fed("@no-idx2-ubyte.gz/255"), INPUT, r"no-idx2-ubyte\.gz: "),
    Row("raw of broken rows", fed("?x2xf32=@raw.bin"), INPUT, r"raw\.bin: expected rows of 8 bytes, got 61"),
    Row("raw of no type", fed("?x2xf23=@raw.bin"), USAGE, r"f23"),
    Row("list of another length", fed("[1,2,3]"), INPUT, r"'x'.*3"),
    Row("parenthesis not closed", fed("rand("), USAGE, r"expected '\)': the '\(' of 'rand\(,y=@y\.npy' is not closed"),
    Row("bracket not closed", fed("[1,2"), USAGE, r"expected '\]': the '\[' of '\[1,2,y=@y\.npy' is not closed"),
    Row("number of no kind", fed("1.2.3"), USAGE, r"1\.2\.3"),
]

TEXTS = [
    Row("text is not there", spoken("text:none"), INPUT, r"none.*No such file"),
    Row("text is a folder", spoken("text:folder"), INPUT, r"folder.*directory"),
    Row("text is empty", spoken("text:empty"), INPUT, r"empty"),
    Row("text shorter than a window", spoken("text:short"), INPUT, r"short: expected a text of at least 9 tokens .* got 3"),
    Row("text of too many characters", spoken("text:wide"), INPUT, r"wide.* 20 distinct characters.* 8 rows"),
    Row("text of other bytes", spoken("text:latin"), INPUT, r"latin.* 20 distinct characters.* 8 rows"),
    Row("evaluation's text has a new byte", spoken("train=text:text", "--data=val=text:news"), INPUT, r"news.*'X'"),
    Row("text for inputs of numbers", train(data="--data=text:text"), INPUT, r"text.*i32"),
    Row("tokens are not there", spoken("tokens:none.bin"), INPUT, r"none\.bin"),
    Row("tokens of no pattern", spoken("tokens:none*.bin"), INPUT, r"none\*\.bin"),
    Row("tokens of another magic", spoken("tokens:bad-tokens.bin"), INPUT, r"bad-tokens\.bin: expected a token file"),
    Row("tokens cut off", spoken("tokens:cut-tokens.bin"), INPUT, r"cut-tokens\.bin: "),
    Row("tokens out of the table", spoken("tokens:tokens.bin"), INPUT, r"tokens\.bin holds the id 8 .*8 rows: ids are 0 … 7"),
]

WEIGHTS = [
    Row("weights are not there", train("--init-from=none"), INPUT, r"none: no such file, run or checkpoint"),
    Row("weights are a folder", train("--init-from=folder"), INPUT, r"folder: the folder is neither a run nor"),
    Row("weights may not be read", train("--init-from=closed.safetensors"), INPUT, r"closed\.safetensors: .*Permission"),
    Row("weights of another shape", train("--init-from=shape.safetensors"), INPUT, r"shape\.safetensors: the tensors do not fit the module:"),
    Row("weights of other names", train("--init-from=name.safetensors"), INPUT, r"name\.safetensors: the tensors do not fit the module:"),
    Row("weights of another type", train("--init-from=ints.safetensors"), INPUT, r"ints\.safetensors: the tensors do not fit the module:"),
    Row("weights beyond f32", train("--init-from=beyond.safetensors"), INPUT,
        r"beyond\.safetensors: tensor 'w': element 2 is -1e\+300, which does not fit f32"),
    Row("number beyond f32", call("--input=x=[1,2,3,1e39]"), INPUT, r"input 'x': 1e\+39 does not fit f32"),
    Row("array beyond f32", call("--input=x=@beyond.npy"), INPUT,
        r"beyond\.npy: element 0 is 1e\+300, which does not fit f32"),
    Row("data beyond f32", fed("1e39"), INPUT, r"input 'x': 1e\+39 does not fit f32"),
    Row("weights beyond f32 for exec", call("--weights=beyond.safetensors", "--input=x=0"), INPUT,
        r"beyond\.safetensors: tensor 'w': element 2 is -1e\+300, which does not fit f32"),
    Row("weights beyond f32 for export", ["export", "good.tgir", "-o", "new", "--target=vulkan-min",
                                          "--weights=beyond.safetensors"], INPUT,
        r"beyond\.safetensors: tensor 'w': element 2 is -1e\+300, which does not fit f32"),
    Row("weights cut off", train("--init-from=cut.safetensors"), INPUT, r"cut\.safetensors: expected 16 bytes of tensors"),
    Row("weights without an end", train("--init-from=json.safetensors"), INPUT, r"json\.safetensors: malformed"),
    Row("weights of text", train("--init-from=text.safetensors"), INPUT, r"text\.safetensors: "),
    Row("weights of a huge header", train("--init-from=huge.safetensors"), INPUT, r"huge\.safetensors: "),
    Row("weights that overlap", train("--init-from=overlap.safetensors"), INPUT, r"overlap\.safetensors: "),
    Row("parameter set is unknown", train("--set=q=0"), INPUT, r"--set names 'q', which is no parameter; there are w"),
    Row("parameter set to another shape", train("--set=w=[1,2,3]"), INPUT, r"w.*3"),
]

RUNS = [
    Row("resume of nothing", resumed("none"), INPUT, r"--resume=none: no run is there"),
    Row("resume of a file", resumed("x.npy"), INPUT, r"--resume=x\.npy: no run is there"),
    Row("resume of a step that is not there", resumed("run/ckpt/step_00000003"), INPUT, r"step_00000003: it is not there"),
    Row("resume to fewer steps", ["train", "--resume=run", "--steps=1"], USAGE, r"1 steps in all are fewer than the \d+ that the run has done"),
    Row("resume of another module", resumed("run", "gpt.tgir"), INPUT, r"gpt\.tgir is not the module the run was started with"),
    Row("resume with another pipeline", resumed("run", "--pipeline=append-grad,append-sgd"), USAGE, r"--pipeline: run goes on"),
    Row("resume in another folder", resumed("run", "--run-dir=other"), USAGE, r"--run-dir=other: a run that is resumed stays"),
    Row("resume of damaged checkpoints", resumed("damaged"), INPUT, r"damaged has no good checkpoint"),
    Row("resume of a damaged checkpoint", resumed("damaged/ckpt/step_00000002"), INPUT,
        r"damaged/ckpt/step_00000002: model\.safetensors was changed"),
    Row("resume with a changed module", ["train", "changed.tgir", "--resume=run", "--steps=6"], INPUT,
        r"changed\.tgir is not the module the run was started with.*--init-from=run"),
    Row("resume with changed data", resumed("run", "--data=x=@other.npy,y=@y.npy"), INPUT,
        r"the data is not what the run was started with.*--init-from=run"),
    Row("resume with another seed", resumed("run", "--seed=99"), USAGE, r"--seed=99 is not the run's 0.*--init-from=run"),
    Row("resume with another vocabulary", resumed("spoken", "--data=text:news"), INPUT, r"news.*'X'"),
    Row("resume with a text in another order", resumed("spoken", "--data=text:text2"), INPUT, r"the data is not what"),
    Row("run's folder holds a run", train("--run-dir=run", keeps=True), INPUT, r"run holds a run already: --resume=run"),
    Row("run's folder is a file", train("--run-dir=x.npy", keeps=True), USAGE, r"--run-dir=x\.npy: .*x\.npy is no folder"),
    Row("run's folder is below a file", train("--run-dir=x.npy/run", keeps=True), USAGE, r"x\.npy/run: .*is no folder"),
    Row("run's folder may not be written", train("--run-dir=locked", keeps=True), USAGE, r"locked.*Permission denied"),
    Row("run's folder may not be made", train("--run-dir=locked/run", keeps=True), USAGE, r"locked/run.*Permission"),
    Row("run is in use", resumed("run"), INPUT, r"run is in use: another process trains there", lock="run"),
    Row("disk is full", ["train", "gpt.tgir", I, "--data=text:text", "--steps=2", "--run-dir=disk/run"], INPUT,
        r"disk/run.*No space left on device", disk=True, leaves="disk/", prints="^device"),
    Row("parameters written where no folder is", train("--out=none/w.safetensors"), USAGE, r"none/w\.safetensors",
        prints="^device"),
    Row("parameters written onto a folder", train("--out=folder"), USAGE, r"folder", prints="^device"),
    Row("parameters written onto data", train("--out=x.npy"), USAGE, r"--out=x\.npy would replace a file of another kind"),
    Row("parameters written onto the module", train("--out=good.tgir"), USAGE, r"--out=good\.tgir would be written over good\.tgir, which is read"),
    Row("module written onto itself", train("--emit-module=good.tgir"), USAGE,
        r"--emit-module=good\.tgir would be written over good\.tgir"),
    Row("loss is no number", train(data="--data=x=nan,y=0"), NUMERIC, r"the loss is nan at step 1", prints="^device"),
]

DEVICES = [
    Row("no device", train("--device=auto"), DEVICE, r"[Vv]ulkan", env={"VK_ICD_FILENAMES": "/none.json",
                                                                         "VK_DRIVER_FILES": "/none.json"}),
    Row("no device to list", ["devices"], DEVICE, r"[Vv]ulkan", env={"VK_ICD_FILENAMES": "/none.json",
                                                                       "VK_DRIVER_FILES": "/none.json"}),
    Row("device of no such name", train("--device=nonesuch"), DEVICE, r"no usable Vulkan device is 'nonesuch'"),
    Row("device of no such number", train("--device=99"), DEVICE, r"99"),
    Row("device too small for the module", ["exec", "limits.tgir", "--device=cpu", "--input=x=0"], DEVICE,
        r"whose limits .* lacks: max_invocations"),
    Row("target unknown", train("--target=nonesuch", "--device=cpu"), USAGE, r"no target 'nonesuch'; known:"),
    Row("target is not there", train("--target=none.json", "--device=cpu"), INPUT, r"cannot open none\.json"),
    Row("target is no JSON", train("--target=broken.json", "--device=cpu"), INPUT, r"broken\.json"),
    Row("target has an unknown field", train("--target=field.json", "--device=cpu"), INPUT, r"field\.json.*nmae"),
    Row("target of no size", train("--target=size.json", "--device=cpu"), INPUT, r"size\.json: target 'x': bindings = 0"),
    Row("tuning is not there", train("--tuning=none.json", "--device=cpu"), INPUT, r"none\.json"),
    Row("tuning is no table", train("--tuning=x.npy", "--device=cpu"), INPUT, r"x\.npy"),
    Row("nothing was tuned", train("--tuning=auto", "--device=cpu"), INPUT,
        r"--tuning=auto: .*folder/tuning-.* is not there.*tg-run tune", env={"TENSORGRAD_CACHE": "folder"}),
    Row("tuning of another target", train("--tuning=auto", "--target=lavapipe", "--device=cpu"), USAGE,
        r"--tuning=auto is what tune measured .*name the file"),
    Row("tuning without a device", train("--tuning=auto"), USAGE, r"--tuning=auto is what tune measured"),
    Row("a tuning file without a device", train("--tuning=none.json"), USAGE, r"--tuning is of a device's kernels"),
]

OTHER_VERBS = [
    Row("exec without an input", call(), USAGE, r"input 'x' of type tensor<2x2xf32> is missing: give --input=x=SPEC"),
    Row("exec with an input of no source", call("--input=x"), USAGE, r"expected an input as NAME=SOURCE, got 'x'"),
    Row("exec expects by no source", call("--input=x=0", "--expected-output=y"), USAGE, r"NAME=SOURCE, got 'y'"),
    Row("parameter set by no source", train("--set=w=one"), USAGE, r"'w': expected .*got 'one'"),
    Row("sampling of nothing", ["sample", "none"], INPUT, r"none: no such file or folder"),
    Row("evaluation of no file", ["eval", "none"], INPUT, r"none: no such file or folder"),
    Row("exec with an unknown input", call("--input=z=0"), INPUT, r"@predict has no input 'z'; it has x"),
    Row("exec with an input twice", call("--input=x=0", "--input=x=1"), USAGE,
        r"--input says two values for x: 'x=0' and 'x=1'"),
    Row("verify with an input twice", ["verify", "good.tgir", "--input=%x=0", "--input=x =1"], USAGE,
        r"--input says two values for x: '%x=0' and 'x =1'"),
    Row("check-grad with an input twice", ["check-grad", "good.tgir", "--input=x=0", "--input=x=0"], USAGE,
        r"--input says two values for x"),
    Row("exec with a list too short", call("--input=x=[1,2,3]"), INPUT, r"'x'.*3"),
    Row("exec of an unknown function", call("--entry=fit", "--input=x=0"), INPUT, r"no function @fit; .*@predict, @train"),
    Row("exec writes to no file", call("--input=x=0", "--output=y=y.npy"), USAGE, r"--output=y=y\.npy: give NAME=@FILE"),
    Row("exec writes an unknown result", call("--input=x=0", "--output=q=@q.npy"), INPUT, r"--output names 'q'"),
    Row("exec writes where no folder is", call("--input=x=0", "--output=y=@none/y.npy"), USAGE, r"none/y\.npy",
        prints="^total="),
    Row("exec writes onto its input", call("--input=x=@x.npy", "--output=y=@x.npy"), USAGE,
        r"--output=x\.npy would be written over x\.npy, which is read"),
    Row("exec writes onto a text", call("--input=x=0", "--output=y=@text.npy"), USAGE, r"--output=text\.npy would replace"),
    Row("exec writes a result under another kind's name", call("--input=x=0", "--output=y=@y.txt"), USAGE,
        r"--output=y=@y\.txt: a result is written as \.npy"),
    Row("exec captures what is not there", call("--input=x=0", "--capture=q"), INPUT, r"q"),
    Row("exec captures what is not there, on a device", ["exec", "good.tgir", "--device=cpu", "--input=x=0", "--capture=q"],
        INPUT, r"--capture names 'q', which is no capture of @predict; it has product"),
    Row("profile's trace written onto the module", ["profile", "good.tgir", "--device=cpu", "--trace=good.tgir"], USAGE,
        r"--trace=good\.tgir would be written over good\.tgir, which is read"),
    Row("profile's page written onto the parameters", ["profile", "good.tgir", "--device=cpu", "--weights=good.safetensors",
                                                       "--roofline=./good.safetensors"], USAGE,
        r"--roofline=\./good\.safetensors would be written over good\.safetensors, which is read"),
    Row("profile's trace written onto the run's module", ["profile", "run", "--device=cpu", "--trace=run/module.spirv.tgir"],
        USAGE, r"--trace=run/module\.spirv\.tgir would be written over run/module\.spirv\.tgir, which is read"),
    Row("profile's page written onto a text", ["profile", "good.tgir", "--device=cpu", "--roofline=text"], USAGE,
        r"--roofline=text would replace a file of another kind"),
    Row("profile's module written onto the run's", ["profile", "run", "--device=cpu", "--emit-module=run/model.tgir"], USAGE,
        r"--emit-module=run/model\.tgir would be written over run/model\.tgir, which is read"),
    Row("parameters written into a checkpoint", train("--init-from=run", "--out=run/ckpt/step_00000004/model.safetensors"),
        USAGE, r"--out=run/ckpt/step_00000004/model\.safetensors would change a checkpoint"),
    Row("exec expects an unknown result", call("--input=x=0", "--expected-output=q=0"), INPUT, r"names 'q'"),
    Row("exec expects too few values", call("--input=x=0", "--expected-output=y=[1,2]"), INPUT,
        r"--expected-output=y=\[1,2\]: expected 4 elements for tensor<2x2xf32>, got 2"),
    Row("exec expects what no file holds", call("--input=x=0", "--expected-output=y=@none.npy"), INPUT,
        r"--expected-output=y=@none\.npy: none\.npy: cannot open"),
    Row("exec expects another value", call("--input=x=0", "--expected-output=total=7"), NUMERIC, r"error: total: .*expected 7",
        prints="^y="),
    Row("sample without parameters", ["sample", "gpt.tgir"], USAGE, r"--weights=PATH"),
    Row("sample without a vocabulary", ["sample", "gpt.tgir", I, "--weights=good.safetensors"], INPUT,
        r"good\.safetensors does not say what its tokens stand for"),
    Row("sample of a run of numbers", ["sample", "run", I], INPUT, r"sampling calls @predict"),
    Row("sample of a checkpoint alone", ["sample", "alone", I], USAGE, r"alone belongs to no run"),
    Row("sample continues other characters", ["sample", "spoken", I, "--prompt=XY"], INPUT, r"'X'"),
    Row("sample continues other bytes", ["sample", "spoken", I, "--prompt=é"], INPUT, r"vocabulary|byte"),
    Row("sample continues nothing", ["sample", "spoken", I, "--prompt="], USAGE, r"--prompt"),
    Row("sample of fewer than no tokens", ["sample", "spoken", I, "--tokens=-1"], USAGE, r"--tokens.*-1"),
    Row("sample at a negative temperature", ["sample", "spoken", I, "--temperature=-1"], USAGE, r"--temperature.*-1"),
    Row("plot of nothing", ["plot"], USAGE, r"RUN"),
    Row("plot of no run", ["plot", "none"], INPUT, r"none: no such run"),
    Row("plot of a folder", ["plot", "folder"], INPUT, r"folder"),
    Row("plot of broken metrics", ["plot", "metrics"], INPUT, r"metrics\.jsonl"),
    Row("plot written onto a folder", ["plot", "run", "-o", "folder"], USAGE, r"folder"),
    Row("plot written where no folder is", ["plot", "run", "-o", "none/p.html"], USAGE, r"none/p\.html"),
    Row("plot written onto the run's rows", ["plot", "run", "-o", "run/metrics.jsonl"], USAGE, r"run/metrics\.jsonl"),
    Row("export for a target and a device", ["export", "run", "-o", "new", "--target=vulkan-min", "--device=cpu"], USAGE,
        r"--device excludes --target|--target excludes --device"),
    Row("export to two places", ["export", "run", "-o", "new", "--out=other", "--target=vulkan-min"], USAGE,
        r"--out is given more than once"),
    Row("export to nowhere", ["export", "run"], USAGE, r"--out"),
    Row("export without parameters", ["export", "good.tgir", "-o", "new"], USAGE, r"--weights"),
    Row("export without a forward function", ["export", "no-predict.tgir", "-o", "new", "--weights=good.safetensors",
                                              "--entry=predict"], INPUT, r"no function @predict|@predict"),
    Row("export onto a file", ["export", "run", "-o", "x.npy", "--target=vulkan-min"], USAGE, r"x\.npy"),
    Row("export onto a folder that is no bundle", ["export", "run", "-o", "folder", "--target=vulkan-min"], USAGE,
        r"folder"),
    Row("export onto the run", ["export", "run", "-o", "run", "--target=vulkan-min"], USAGE, r"run"),
    Row("export into what is no folder", ["export", "run", "-o", "x.npy/new", "--target=vulkan-min"], USAGE,
        r"--out=x\.npy/new: .*x\.npy is no folder"),
    Row("export of damaged checkpoints", ["export", "damaged", "-o", "new"], INPUT, r"damaged has no good checkpoint"),
    Row("verify without functions", ["verify", "no-functions.tgir"], INPUT, r"no-functions\.tgir.* no function"),
    Row("verify writes into a file", ["verify", "good.tgir", "--devices=cpu", "--dump=x.npy/kernel"], USAGE,
        r"--dump=x\.npy/kernel: .*x\.npy is no folder"),
    Row("verify on a device that is not there, besides", ["verify", "good.tgir", "--devices=cpu,99"], DEVICE,
        r"no usable Vulkan device is '99'"),
    Row("verify of an unknown function", ["verify", "good.tgir", "--entry=fit"], INPUT, r"@fit"),
    Row("doctor of an unknown target", ["doctor", "good.tgir", "--target=nonesuch"], USAGE, r"no target 'nonesuch'"),
    Row("doctor of a target that is not there", ["doctor", "good.tgir", "--target=none.json"], INPUT,
        r"cannot open none\.json"),
    Row("doctor after an unknown pass", ["doctor", "good.tgir", "--target=lavapipe", "--pipeline=append-gard"], USAGE,
        r"append-gard.*append-grad"),
    Row("memory on an unknown target", ["explain-memory", "good.tgir", "--target=nonesuch"], USAGE,
        r"no target 'nonesuch'"),
    Row("memory on a target that is not there", ["explain-memory", "good.tgir", "--target=none.json"], INPUT,
        r"cannot open none\.json"),
    Row("memory after an unknown pass", ["explain-memory", "good.tgir", "--pipeline=append-gard"], USAGE,
        r"append-gard.*append-grad"),
    Row("bench of passes for an unknown target", ["bench", "good.tgir", "--device=cpu", "--pipeline=fuse{target=nonesuch}"],
        USAGE, r"fuse: no target 'nonesuch'"),
    Row("export for an unknown target", ["export", "run", "-o", "new", "--target=nonesuch"], USAGE,
        r"no target 'nonesuch'"),
    Row("export for a target that is not there", ["export", "run", "-o", "new", "--target=none.json"], INPUT,
        r"cannot open none\.json"),
    Row("memory of an unknown function", ["explain-memory", "good.tgir", "--function=fit"], INPUT, r"no function @fit"),
    Row("gradients by passes that append none", ["check-grad", "good.tgir", "--pipeline=fuse"], INPUT,
        r"@train has gradients of no parameter after --pipeline=fuse"),
    Row("gradients of no parameter", ["check-grad", "good.tgir", "--wrt=q*"], INPUT, r"--wrt=q\* names no parameter"),
    Row("gradients of no device", ["check-grad", "good.tgir", "--device=nonesuch"], DEVICE,
        r"no usable Vulkan device is 'nonesuch'"),
    Row("gradients of an unknown function", ["check-grad", "good.tgir", "--func=fit"], INPUT, r"no function @fit"),
    Row("tune of no module", ["tune", "none.tgir"], INPUT, r"cannot open none\.tgir: No such file"),
    Row("tune without a device", ["tune", "good.tgir", I], USAGE, r"tune times kernels on a Vulkan device"),
    Row("tune of a late stage", ["tune", "late.tgir", "--device=cpu"], INPUT, r"late\.tgir is of stage spirv"),
    Row("tune without a place for its file", ["tune", "good.tgir", "--device=cpu", "--no-cache"], USAGE, r"give -o FILE"),
    Row("tune written onto a text", ["tune", "good.tgir", "--device=cpu", "-o", "text"], USAGE, r"--out=text would replace"),
    Row("bench of no workload", ["bench", "mpl"], INPUT, r"cannot open mpl: .*"),
    # The device is not there, so that only what is judged before the measurement is told.
    Row("bench adds to a file of another kind", ["bench", "mlp", "--device=99", "--results=broken.json"], INPUT,
        r"broken\.json holds no results of tg-run bench --results"),
    Row("bench adds to an array", ["bench", "mlp", "--device=99", "--results=x.npy"], USAGE,
        r"--results=x\.npy would replace a file of another kind"),
    Row("bench adds where no folder is", ["bench", "mlp", "--device=99", "--results=none/r.json"], USAGE,
        r"--results=none/r\.json: there is no folder none"),
    Row("bench adds to a folder", ["bench", "mlp", "--device=99", "--results=folder"], USAGE,
        r"--results=folder: it is a directory"),
    Row("bench adds to its module", ["bench", "good.tgir", "--device=99", "--results=good.tgir"], USAGE,
        r"--results=good\.tgir would be written over good\.tgir, which is read"),
    Row("export of too many tensors", ["export", "good.tgir", "-o", "new", "--target=vulkan-min",
                                       "--weights=more.safetensors"], INPUT,
        r"more\.safetensors: the tensors do not fit the module:"),
]

ROWS = COMMAND_LINE + CONFIGURATION + MODULES + DATA + TEXTS + WEIGHTS + RUNS + DEVICES + OTHER_VERBS
