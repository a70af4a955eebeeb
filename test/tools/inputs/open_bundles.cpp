// SPDX-License-Identifier: Apache-2.0
// open_bundles BUNDLE DEVICE MANIFESTS COUNT: opens a bundle under each of the manifests 0.json, 1.json, … in
// the folder MANIFESTS; what is refused is refused by an error. Prints how many were opened and refused.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "runtime/bundle/tensorgrad_bundle.h"

int main(int, char** argv) {
  const std::string bundle = argv[1];
  int opened = 0, refused = 0;
  for (int i = 0; i < std::atoi(argv[4]); ++i) {
    std::filesystem::copy_file(argv[3] + ("/" + std::to_string(i)) + ".json", bundle + "/manifest.json",
                               std::filesystem::copy_options::overwrite_existing);
    std::fprintf(stderr, "%d.json\n", i);
    if (tgb_bundle* one = tgb_open(bundle.c_str(), argv[2])) {
      ++opened;
      if (!tgb_run(one, nullptr, tgb_input_count(one), nullptr, tgb_result_count(one)) || !*tgb_error(one))
        return std::printf("%d.json runs without inputs\n", i), 1;
      tgb_close(one);
    } else if (++refused; !*tgb_open_error()) {
      return std::printf("%d.json was refused without a reason\n", i), 1;
    } else {
      std::fprintf(stderr, "  %s\n", tgb_open_error());
    }
  }
  std::printf("%d opened, %d refused\n", opened, refused);
}
