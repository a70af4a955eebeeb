// SPDX-License-Identifier: Apache-2.0
// Runs kernels written as text on whatever device there is, under the validation layer.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/rewrites.h"
#include "runtime/vulkan/recording.h"
#include "test/unit/kernel_text.h"

namespace tg::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// `count` elements in vectors of `lanes`: "36xvec4<u32>".
inline std::string elements(size_t count, const std::string& type, int lanes) {
  return lanes == 1 ? fmt::format("{}x{}", count, type)
                    : fmt::format("{}xvec{}<{}>", count / static_cast<size_t>(lanes), lanes, type);
}

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    vulkan::DeviceOptions options;
    options.validation = true;
    auto opened = vulkan::Device::open(options);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = *opened;
  }
  void TearDown() override {
    if (!device_) return;
    for (const std::string& message : device_->validationMessages()) ADD_FAILURE() << message;
  }

  const Target& deviceTarget() const { return device_->info().target; }

  /// The SPIR-V of kernel @k.
  std::vector<uint32_t> compiled(Module& module, const Target& target = {}, std::string* text = nullptr) {
    Item* kernel = module.find(ItemKind::kernel, "k");
    legalize(&module, *kernel);
    auto glsl = printGlsl(*kernel, target);
    EXPECT_TRUE(glsl) << glsl.error().str();
    if (!glsl) return {};
    auto words = compileGlsl(*glsl, "k");
    EXPECT_TRUE(words) << words.error().str();
    if (text) *text = glsl->text;
    return words ? *words : std::vector<uint32_t>{};
  }

  /// Runs kernel @k of a module, which is legalized, on the bytes of its buffers; returns its GLSL.
  std::string onDevice(Module& module, Memory& memory) { return onDevice(module, memory, deviceTarget()); }
  std::string onDevice(Module& module, Memory& memory, const Target& target) {
    using vulkan::BindingKind;
    std::string text;
    vulkan::KernelCode code{"k", compiled(module, target, &text),
                            std::vector<BindingKind>(memory.size(), BindingKind::storage), 0};
    auto pipelines = vulkan::createPipelines(*device_, {&code, 1});
    EXPECT_TRUE(pipelines) << pipelines.error().message() << text;
    if (!pipelines) return text;
    vulkan::Dispatch dispatch;
    dispatch.pipeline = (*pipelines)[0];
    const Item& kernel = *module.find(ItemKind::kernel, "k");
    for (size_t axis = 0; axis < kernel.grid.size(); ++axis)
      dispatch.grid[axis] = static_cast<uint32_t>(kernel.grid[axis].integer);
    std::vector<std::unique_ptr<vulkan::Buffer>> buffers;
    for (auto& bytes : memory) {
      auto size = static_cast<int64_t>(bytes.size());
      auto made = vulkan::Buffer::create(*device_, {"buffer", size, vulkan::MemoryKind::device});
      EXPECT_TRUE(made && (*made)->write(0, size, bytes.data()));
      buffers.push_back(std::move(*made));
      dispatch.bindings.push_back({buffers.back().get()});
    }
    auto recording = vulkan::Recording::create(*device_, {dispatch});
    EXPECT_TRUE(recording) << recording.error().message();
    EXPECT_TRUE((*recording)->submit() && (*recording)->wait());
    for (size_t i = 0; i < memory.size(); ++i)
      EXPECT_TRUE(buffers[i]->read(0, buffers[i]->bytes(), memory[i].data()));
    return text;
  }

  /// What a device says to SPIR-V it does not take.
  std::string refusal(std::vector<uint32_t> words) {
    vulkan::KernelCode code{"k", std::move(words), {vulkan::BindingKind::storage}, 0};
    auto pipelines = vulkan::createPipelines(*device_, {&code, 1});
    EXPECT_FALSE(pipelines);
    return pipelines ? "" : pipelines.error().message();
  }

  std::shared_ptr<vulkan::Device> device_;
};

}  // namespace tg::test
