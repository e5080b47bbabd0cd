#include "experiments/data/drawn/digit_glyphs.h"

#include <array>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr Pen kDown = Pen::down;
constexpr Pen kCorner = Pen::corner;

constexpr std::array kZero = std::to_array<StrokePoint>({{.50, .05, kDown},
                                                         {.22, .22},
                                                         {.15, .50},
                                                         {.22, .78},
                                                         {.50, .95},
                                                         {.78, .78},
                                                         {.85, .50},
                                                         {.78, .22},
                                                         {.50, .05}});

constexpr std::array kOneBare =
    std::to_array<StrokePoint>({{.50, .05, kDown}, {.50, .50}, {.50, .95}});
constexpr std::array kOneWithFlag = std::to_array<StrokePoint>(
    {{.28, .27, kDown}, {.53, .05, kCorner}, {.53, .50}, {.53, .95}});
constexpr std::array kOneWithFoot =
    std::to_array<StrokePoint>({{.30, .25, kDown},
                                {.52, .05, kCorner},
                                {.52, .50},
                                {.52, .95},
                                {.28, .95, kDown},
                                {.76, .95}});

constexpr std::array kTwoFlat = std::to_array<StrokePoint>({{.20, .27, kDown},
                                                            {.30, .10},
                                                            {.52, .05},
                                                            {.76, .17},
                                                            {.74, .40},
                                                            {.50, .66},
                                                            {.18, .95, kCorner},
                                                            {.85, .94}});
constexpr std::array kTwoWithLoop =
    std::to_array<StrokePoint>({{.20, .24, kDown},
                                {.47, .05},
                                {.76, .23},
                                {.60, .60},
                                {.30, .92},
                                {.17, .82},
                                {.38, .76},
                                {.60, .93},
                                {.88, .86}});

constexpr std::array kThreeRound =
    std::to_array<StrokePoint>({{.20, .15, kDown},
                                {.50, .05},
                                {.76, .25},
                                {.42, .47, kCorner},
                                {.74, .56},
                                {.80, .76},
                                {.52, .95},
                                {.17, .84}});
constexpr std::array kThreeFlat =
    std::to_array<StrokePoint>({{.20, .06, kDown},
                                {.78, .06, kCorner},
                                {.44, .42, kCorner},
                                {.74, .50},
                                {.82, .73},
                                {.53, .95},
                                {.17, .86}});

constexpr std::array kFourOpen =
    std::to_array<StrokePoint>({{.26, .05, kDown},
                                {.17, .52, kCorner},
                                {.86, .54},
                                {.70, .12, kDown},
                                {.67, .50},
                                {.66, .95}});
constexpr std::array kFourClosed =
    std::to_array<StrokePoint>({{.64, .95, kDown},
                                {.64, .50},
                                {.64, .05, kCorner},
                                {.12, .66, kCorner},
                                {.88, .66}});

constexpr std::array kFive = std::to_array<StrokePoint>({{.80, .06, kDown},
                                                         {.28, .07, kCorner},
                                                         {.23, .46, kCorner},
                                                         {.52, .38},
                                                         {.80, .55},
                                                         {.76, .83},
                                                         {.46, .95},
                                                         {.17, .85}});

constexpr std::array kSixCurved = std::to_array<StrokePoint>({{.70, .06, kDown},
                                                              {.36, .30},
                                                              {.20, .66},
                                                              {.34, .92},
                                                              {.62, .93},
                                                              {.80, .72},
                                                              {.60, .52},
                                                              {.35, .57},
                                                              {.21, .74}});
constexpr std::array kSixStraight =
    std::to_array<StrokePoint>({{.55, .05, kDown},
                                {.30, .42},
                                {.20, .70},
                                {.48, .95},
                                {.78, .74},
                                {.55, .53},
                                {.24, .68}});

constexpr std::array kSevenBare = std::to_array<StrokePoint>(
    {{.15, .07, kDown}, {.83, .07, kCorner}, {.56, .50}, {.40, .95}});
constexpr std::array kSevenWithBar =
    std::to_array<StrokePoint>({{.15, .08, kDown},
                                {.83, .06, kCorner},
                                {.58, .50},
                                {.44, .95},
                                {.32, .52, kDown},
                                {.80, .50}});

constexpr std::array kEightCrossing =
    std::to_array<StrokePoint>({{.72, .20, kDown},
                                {.50, .05},
                                {.27, .24},
                                {.50, .47},
                                {.79, .74},
                                {.50, .95},
                                {.21, .74},
                                {.50, .47},
                                {.73, .22}});
constexpr std::array kEightRings =
    std::to_array<StrokePoint>({{.50, .47, kDown},
                                {.25, .27},
                                {.50, .05},
                                {.75, .27},
                                {.50, .47},
                                {.50, .47, kDown},
                                {.20, .72},
                                {.50, .95},
                                {.80, .72},
                                {.50, .47}});

constexpr std::array kNineStraight =
    std::to_array<StrokePoint>({{.77, .26, kDown},
                                {.52, .49},
                                {.23, .30},
                                {.50, .05},
                                {.77, .24},
                                {.75, .58},
                                {.64, .95}});
constexpr std::array kNineHooked =
    std::to_array<StrokePoint>({{.77, .28, kDown},
                                {.50, .50},
                                {.22, .28},
                                {.50, .05},
                                {.77, .24},
                                {.79, .62},
                                {.56, .94},
                                {.25, .86}});

constexpr std::array<Glyph, 1> kZeros = {kZero};
constexpr std::array<Glyph, 3> kOnes = {kOneBare, kOneWithFlag, kOneWithFoot};
constexpr std::array<Glyph, 2> kTwos = {kTwoFlat, kTwoWithLoop};
constexpr std::array<Glyph, 2> kThrees = {kThreeRound, kThreeFlat};
constexpr std::array<Glyph, 2> kFours = {kFourOpen, kFourClosed};
constexpr std::array<Glyph, 1> kFives = {kFive};
constexpr std::array<Glyph, 2> kSixes = {kSixCurved, kSixStraight};
constexpr std::array<Glyph, 2> kSevens = {kSevenBare, kSevenWithBar};
constexpr std::array<Glyph, 2> kEights = {kEightCrossing, kEightRings};
constexpr std::array<Glyph, 2> kNines = {kNineStraight, kNineHooked};

constexpr std::array<std::span<const Glyph>, 10> kDigits = {
    kZeros, kOnes,  kTwos,   kThrees, kFours,
    kFives, kSixes, kSevens, kEights, kNines};

}  // namespace

std::span<const Glyph> glyphs_of(int digit) {
  SLUICE_CHECK(digit >= 0 && digit <= 9, "digit {}", digit);
  return kDigits[static_cast<std::size_t>(digit)];
}

}  // namespace sluice
