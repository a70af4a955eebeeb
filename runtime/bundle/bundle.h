// SPDX-License-Identifier: Apache-2.0
// Exports a model as a bundle that runs without the compiler: kernels, weights, a manifest, and the source of a loader.
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

/// File contents by path inside the bundle.
using BundleFiles = std::map<std::string, std::vector<std::byte>>;

/// Reduces a module of stage tensor or fused to one function: keeps the function, what it calls, and the params and
/// states that it reads. Errors: another stage, no such function, a function that updates something.
Result<std::unique_ptr<Module>> forwardOnly(const Module& module, const std::string& entry);

/// All files of a bundle. `module` must be of stage spirv with `entry` as its only function. `values` must have each of
/// its params and states by name; other values are ignored. The error lists all that are missing or have another type.
/// The C header is named after `name`.
Result<BundleFiles> makeBundle(const Module& module, const std::string& entry, const NamedArrays& values,
                               const std::string& name, const std::string& version);

/// An error if something exists at this path. With `force`, an existing bundle or empty folder is allowed.
Result<void> mayWriteBundle(const std::string& path, bool force);
/// Creates the directory `path` atomically: writes the files to a directory beside it, syncs, and renames that. First
/// checks `mayWriteBundle`, and replaces what that allows.
Result<void> writeBundle(const std::string& path, const BundleFiles& files, bool force);

struct BundleCheck {
  std::string manifest;  ///< the text of manifest.json
  std::string damage;    ///< the first file that is missing or differs from the manifest; "" if none
};
/// Reads a bundle's manifest and checks every file that it names. An error if the folder has no manifest.
Result<BundleCheck> checkBundle(const std::string& path);

// For the other files of this folder.

/// The manifest.json of `module`. `files` must already contain the kernels and weights.
Result<std::string> bundleManifest(const Module& module, const Item& entry, const std::string& name,
                                   const std::string& version, const BundleFiles& files);
/// The C header: sizes, a struct for the inputs, one for the results, and a function that runs the model on them.
std::string bundleHeader(const Item& entry, const std::string& name);
/// `name` turned into part of a C identifier.
std::string cIdentifier(const std::string& name);
/// The loader's files by name: tensorgrad_bundle.h, tensorgrad_bundle.cpp, example.cpp.
const std::map<std::string, std::string>& loaderSources();

}  // namespace tg
