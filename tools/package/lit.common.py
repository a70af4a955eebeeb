# SPDX-License-Identifier: Apache-2.0
"""The common part of lit configurations for projects that use tensorgrad's tools. In a lit.cfg.py:

    config.name = "my-pass"
    config.test_source_root = os.path.dirname(__file__)
    lit_config.load_config(config, LIT_CONFIG)  # tensorgrad_LIT_CONFIG of find_package(tensorgrad)

runs tests in .tgir and .test files, with tg-opt, tg-run, and FileCheck, not and count of LLVM on the path.
The tools are found in `config.tg_tools_dir`, if that is set before, or else on the path.
"""
import glob
import os

import lit.formats

config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tgir", ".test"]
tools = [getattr(config, "tg_tools_dir", "")]
llvm = sorted(glob.glob("/usr/lib/llvm-*/bin/FileCheck"), key=lambda path: (len(path), path))
if llvm:
    tools.append(os.path.dirname(llvm[-1]))
config.environment["PATH"] = os.pathsep.join([*filter(None, tools), os.environ["PATH"]])
# Tests use no cache: they compile everything, and do not touch the user's cache folder.
config.environment["TENSORGRAD_CACHE"] = ""
for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES", "XDG_RUNTIME_DIR", "HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
