// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/engine.h"

#include <dlfcn.h>

#include <array>

#include <fmt/format.h>

#include "runtime/collective/host_engine.h"

namespace tg::collective {

static Result<TgTransport*> join(const std::vector<std::string>& libraries) {
  std::string reasons;
  for (const std::string& library : libraries) {
    // RTLD_GLOBAL: MPI's own plug-ins resolve its symbols among all loaded libraries.
    void* object = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!object) {
      reasons += fmt::format("\n  {}", dlerror());
      continue;
    }
    auto* entry = reinterpret_cast<TgTransportEntry*>(dlsym(object, "tgTransport"));
    if (!entry) return fail("{} is not a transport library: it has no tgTransport", library);
    std::array<char, 256> why{};
    TgTransport* transport = entry(why.data(), why.size());
    if (!transport) return fail("{}: {}", library, why.data());
    if (transport->version == kTgTransportVersion) return transport;
    return fail("{} is of version {}, and this program takes version {}", library, transport->version,
                static_cast<int>(kTgTransportVersion));
  }
  return fail("no transport library can be loaded:{}", reasons);
}

Result<std::shared_ptr<Engine>> openPlugin(const std::vector<std::string>& libraries, double timeout) {
  TG_TRY(std::unique_ptr<HostEngine> engine,
         HostEngine::create([libraries] { return join(libraries); }, timeout));
  return std::shared_ptr<Engine>(std::move(engine));
}

}  // namespace tg::collective
