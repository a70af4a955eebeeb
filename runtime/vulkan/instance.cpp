// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/instance.h"

#include <algorithm>
#include <cstring>

namespace tg::vulkan {

namespace {

constexpr const char* validationLayer = "VK_LAYER_KHRONOS_validation";

std::mutex loaderMutex;

/// volk's pointers are global to the process. They point to the loader's trampolines, which dispatch on the handle that
/// they are given. So those of the first instance serve all later ones and are never written again.
bool instancePointersLoaded = false;

Result<void> loadLoader() {
  static bool loaded = false;
  if (loaded) return {};
  if (volkInitialize() != VK_SUCCESS) {
    return fail("no Vulkan loader: cannot load libvulkan.so.1 (install the Vulkan loader and a driver)");
  }
  if (!vkEnumerateInstanceVersion)
    return fail("the Vulkan loader is too old: version 1.1 or later is needed");
  loaded = true;
  return {};
}

std::vector<VkExtensionProperties> instanceExtensions(const char* layer) {
  uint32_t count = 0;
  vkEnumerateInstanceExtensionProperties(layer, &count, nullptr);
  std::vector<VkExtensionProperties> all(count);
  vkEnumerateInstanceExtensionProperties(layer, &count, all.data());
  all.resize(count);
  return all;
}

bool offers(const std::vector<VkExtensionProperties>& all, const char* name) {
  return std::ranges::any_of(all, [&](const auto& e) { return !std::strcmp(e.extensionName, name); });
}

bool layerInstalled() {
  uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> all(count);
  vkEnumerateInstanceLayerProperties(&count, all.data());
  all.resize(count);
  return std::ranges::any_of(all, [](const auto& l) { return !std::strcmp(l.layerName, validationLayer); });
}

VKAPI_ATTR VkBool32 VKAPI_CALL onMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                         VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data, void* log) {
  static_cast<ValidationLog*>(log)->add(data->pMessageIdName ? data->pMessageIdName : "",
                                        data->pMessage ? data->pMessage : "");
  return VK_FALSE;
}

/// Receives only the layer's own findings. General messages come from the loader, and depend on the drivers that happen
/// to be installed.
VkDebugUtilsMessengerCreateInfoEXT messengerInfo(ValidationLog* log) {
  auto info =
      typed<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  info.pfnUserCallback = onMessage;
  info.pUserData = log;
  return info;
}

}  // namespace

void ValidationLog::add(std::string_view id, std::string_view text) {
  // The layer's remarks on its own settings, such as a renamed one, are not findings.
  if (id == "VALIDATION-SETTINGS") return;
  std::lock_guard lock(mutex_);
  if (contains(ignoredIds_, id)) return;
  messages_.emplace_back(text);
}

std::vector<std::string> ValidationLog::messages() const {
  std::lock_guard lock(mutex_);
  return messages_;
}

void ValidationLog::clear() {
  std::lock_guard lock(mutex_);
  messages_.clear();
}

Result<std::shared_ptr<Instance>> Instance::create(bool validation, std::shared_ptr<ValidationLog> log) {
  // Never destroyed: when the last instance is destroyed the loader unloads the driver, and NVIDIA's driver cannot be
  // loaded more than a few times in one process.
  static auto* const kept = new std::shared_ptr<Instance>();
  std::lock_guard lock(loaderMutex);
  if (!validation && *kept) return *kept;
  TG_CHECK(loadLoader());
  std::shared_ptr<Instance> instance(new Instance());
  if (validation) instance->log_ = std::move(log);
  TG_CHECK(instance->initialize(validation));
  if (!validation) {
    *kept = instance;
    countHandles(-1);  // it belongs to the process, not to a caller
  }
  return instance;
}

Result<void> Instance::initialize(bool validation) {
  if (validation && !layerInstalled()) {
    return fail("validation was asked for, but the layer {} is not installed", validationLayer);
  }
  auto app = typed<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  app.pApplicationName = app.pEngineName = "tensorgrad";
  app.apiVersion = VK_API_VERSION_1_3;

  std::vector<const char*> layers, extensions;
  debugUtils_ = offers(instanceExtensions(nullptr), VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (debugUtils_) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);

  VkDebugUtilsMessengerCreateInfoEXT messenger = messengerInfo(log_.get());
  const VkValidationFeatureEnableEXT enabled[] = {
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  auto features = typed<VkValidationFeaturesEXT>(VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT);
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = enabled;
  auto info = typed<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  if (validation) {
    if (!debugUtils_ ||
        !offers(instanceExtensions(validationLayer), VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
      return fail("validation was asked for, but the installed {} has no {}", validationLayer,
                  debugUtils_ ? VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME
                              : VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    }
    layers.push_back(validationLayer);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    features.pNext = &messenger;
    info.pNext = &features;
  }
  info.pApplicationInfo = &app;
  info.enabledLayerCount = uint32_t(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = uint32_t(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult result = vkCreateInstance(&info, nullptr, &raw_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return fail("no Vulkan driver is installed (VK_ERROR_INCOMPATIBLE_DRIVER)");
  }
  if (result != VK_SUCCESS) return fail("cannot create a Vulkan instance: {}", resultName(result));
  countHandles(1);
  if (!instancePointersLoaded) volkLoadInstanceOnly(raw_);
  instancePointersLoaded = true;

  if (!validation) return {};
  result = vkCreateDebugUtilsMessengerEXT(raw_, &messenger, nullptr, &messenger_);
  if (result != VK_SUCCESS) {
    return fail("cannot create the validation messenger: {}", resultName(result));
  }
  countHandles(1);
  return {};
}

Instance::~Instance() {
  if (messenger_) {
    vkDestroyDebugUtilsMessengerEXT(raw_, messenger_, nullptr);
    countHandles(-1);
  }
  if (raw_) {
    vkDestroyInstance(raw_, nullptr);
    countHandles(-1);
  }
}

}  // namespace tg::vulkan
