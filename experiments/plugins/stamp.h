#pragma once

#include <torch/version.h>

// Made by the build: SLUICE_HEADERS, the version and a hash of the headers that
// plug-ins may include.
#include "sluice_headers.h"

#define SLUICE_STAMP_TEXT_OF(macro) #macro
#define SLUICE_STAMP_TEXT(macro) SLUICE_STAMP_TEXT_OF(macro)

/// Text with which a plug-in's stamp begins in its file.
#define SLUICE_STAMP_BEGIN "sluice-plug-in: "

/// Stamp on which program and plug-in must agree, in one line: layouts of types
/// and inline functions follow from it.
#define SLUICE_PLUGIN_STAMP                                                \
  SLUICE_STAMP_BEGIN                                                       \
  "Sluice " SLUICE_HEADERS ", LibTorch " TORCH_VERSION                     \
  ", C++ ABI " SLUICE_STAMP_TEXT(__GXX_ABI_VERSION) "/" SLUICE_STAMP_TEXT( \
      _GLIBCXX_USE_CXX11_ABI)
