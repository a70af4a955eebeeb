# SPDX-License-Identifier: Apache-2.0
"""The textual suite. Run `tools/test.sh`, or one folder of it:
/usr/lib/llvm-19/build/utils/lit/lit.py -v build/release/test --filter=passes/fuse
"""
import glob
import os
import shutil
import subprocess

import lit.formats

config.name = "tensorgrad"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tgir", ".test"]
config.excludes = ["inputs", "unit"]
config.test_source_root = os.path.join(config.tg_source_dir, "test")
config.test_exec_root = config.tg_test_exec_root


def findTool(name, *places):
    """The path of one of LLVM's test tools, under any of the names Debian gives it."""
    versioned = sorted(glob.glob(f"/usr/lib/llvm-*/bin/{name}"), reverse=True)
    path = next(filter(None, map(shutil.which, [*places, *versioned])), None)
    if path is None:
        lit_config.fatal(f"{name} not found: install llvm-19-tools")
    return path


config.substitutions += [
    (r"\bFileCheck\b", findTool("FileCheck", "/usr/lib/llvm-19/bin/FileCheck", "FileCheck-19", "FileCheck")),
    (r"\bcount (?=\d)", findTool("count", "/usr/lib/llvm-19/bin/count", "count-19", "count") + " "),
    # Only where a command begins, so that an argument may hold the word.
    (r"((?:^|[|;&()]) *)not(?= )", r"\1" + findTool("not", "/usr/lib/llvm-19/bin/not", "not-19", "not")),
    ("%root", config.tg_source_dir),
    ("%bin", config.tg_bin_dir),
]
config.environment["PATH"] = config.tg_bin_dir + os.pathsep + os.environ["PATH"]
# The tests of one run share a cache of shaders that begins empty. The user's own is left alone.
cache = os.path.join(config.test_exec_root, "cache")
shutil.rmtree(cache, ignore_errors=True)
config.environment["TENSORGRAD_CACHE"] = cache

if config.tg_asan:
    config.available_features.add("asan")
    config.environment["ASAN_OPTIONS"] = config.tg_asan_options
else:
    config.available_features.add("plain")
if not config.tg_host:
    config.limit_to_features = {"plain", "swiftshader", "vulkan"}  # other tests need no device
if config.tg_debug:
    config.available_features.add("debug")
# Open MPI as tests run it: any user, more ranks than cores, nothing but this machine.
mpirun = shutil.which("mpirun")
if mpirun and os.path.exists(os.path.join(config.tg_bin_dir, "../lib/libtensorgrad_mpi.so")):
    config.available_features.add("mpi")
    ours = f"timeout 300 {mpirun} --allow-run-as-root --oversubscribe --mca btl_tcp_if_include lo"
    # Open MPI 5 has no --quiet.
    silent = subprocess.run([mpirun, "--quiet", "--version"], capture_output=True, check=False).returncode == 0
    config.substitutions += [("%mpirun_loud", ours), ("%mpirun", f"{ours} --quiet" if silent else ours)]
for program in ("chromium", "groff", "zsh"):
    if shutil.which(program):
        config.available_features.add(program)
# Chromium's driver, independent of Mesa's.
swiftshader = "/usr/lib/chromium/vk_swiftshader_icd.json"
if config.tg_vulkan and os.path.exists(swiftshader):
    config.available_features.add("swiftshader")
    config.substitutions.append(("%swiftshader", swiftshader))
if config.tg_vulkan:
    config.available_features.add("vulkan")
    config.environment["GALLIVM_PERF"] = "nopt"  # Mesa's compiler takes less time
    config.environment["VK_INSTANCE_LAYERS"] = "VK_LAYER_KHRONOS_validation"
    config.environment["VK_LAYER_SETTINGS_PATH"] = os.path.join(config.test_source_root, "vk_layer_settings.txt")
for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "XDG_RUNTIME_DIR", "HOME", "LP_NUM_THREADS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
