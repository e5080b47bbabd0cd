#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Images in folders: train/CLASS/*.png or *.jpg, and the same below test or
/// val (or validation). Classes are the folders of train, sorted; files may lie
/// deeper. With both test and val, val is the validation split. With the option
/// `test`, a share, CLASS/* alone is divided.
MakeDataSet configure_image_folder(Fields& options);

/// Tiny-ImageNet as published: tiny-imagenet-200/train/WNID/images/*.JPEG and
/// val/images/*.JPEG with val/val_annotations.txt, 64x64 colour. The labels of
/// its test folder were never published: val is the test split.
MakeDataSet configure_tiny_imagenet(Fields& options);

}  // namespace sluice
