// SPDX-License-Identifier: Apache-2.0
// A model made ready to run without the compiler: kernels, weights, a manifest, and the source of a loader.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/runner.h"

namespace tg {

/// Files by their paths inside the bundle.
using BundleFiles = std::map<std::string, std::vector<std::byte>>;

/// What is left of a module of stage tensor or fused when only one function is ever called: it, what it
/// calls, and the params and states it reads. Errors: another stage, no such function, one that updates
/// something.
Result<std::unique_ptr<Module>> forwardOnly(const Module& module, const std::string& entry);

/// All files of a bundle. `module` is of stage spirv and has only the function `entry`; `values` has every
/// param and state of it by name, others are passed over. The error lists all that are missing or of another
/// type. `name` becomes that of the C header.
Result<BundleFiles> makeBundle(const Module& module, const std::string& entry, const NamedArrays& values,
                               const std::string& name, const std::string& version);

/// Refuses a path at which something is already, unless it is, with `force`, a bundle or empty.
Result<void> mayWriteBundle(const std::string& path, bool force);
/// Makes the directory `path`, whole or not at all: the files are written to one beside it, synced and
/// renamed. Asks `mayWriteBundle` first, and replaces what that allows.
Result<void> writeBundle(const std::string& path, const BundleFiles& files, bool force);

struct BundleCheck {
  std::string manifest;  ///< manifest.json as it stands
  std::string damage;    ///< the first file that is missing or not what the manifest says; "" for a good one
};
/// Reads a bundle's manifest and every file that it names. A folder without one is an error.
Result<BundleCheck> checkBundle(const std::string& path);

// For the other files of this folder.

/// manifest.json of `module`; `files` has the kernels and weights already.
Result<std::string> bundleManifest(const Module& module, const Item& entry, const std::string& name,
                                   const std::string& version, const BundleFiles& files);
/// The C header: sizes, a struct of the inputs and one of the results, and a function that runs with them.
std::string bundleHeader(const Item& entry, const std::string& name);
/// `name` as part of a C identifier.
std::string cIdentifier(const std::string& name);
/// The loader's files by name: tensorgrad_bundle.h, tensorgrad_bundle.cpp, example.cpp.
const std::map<std::string, std::string>& loaderSources();

}  // namespace tg
