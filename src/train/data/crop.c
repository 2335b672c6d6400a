/* Boxes of pictures; see crop.h. */
#include "train/data/crop.h"

#include <math.h>

static const double min_area = 0.08, min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;
enum { N_TRIES = 10 };

static box middle(uint32_t width, uint32_t height, double box_width, double box_height)
{
    return (box){(width - box_width) / 2, (height - box_height) / 2, box_width, box_height};
}

/* The box where no try fits: all of the picture, or its middle where it is longer than the ratios allow. */
static box widest(uint32_t width, uint32_t height)
{
    const double ratio = (double)width / height;
    if (ratio < min_ratio)
        return middle(width, height, width, fmin(height, round(width / min_ratio)));
    if (ratio > max_ratio)
        return middle(width, height, fmin(width, round(height * max_ratio)), height);
    return middle(width, height, width, height);
}

static box random_box(comet_random *random, uint32_t width, uint32_t height)
{
    for (int i = 0; i < N_TRIES; i++) {
        const double area = (double)width * height * (min_area + (1 - min_area) * comet_random_uniform(random));
        const double ratio = exp(log(min_ratio) + (log(max_ratio) - log(min_ratio)) * comet_random_uniform(random));
        const double w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio));
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        const double x = (double)comet_random_below(random, (uint64_t)(width - w) + 1);
        const double y = (double)comet_random_below(random, (uint64_t)(height - h) + 1);
        return (box){x, y, w, h};
    }
    return widest(width, height);
}

box crop_choose(const crop_rule *rule, uint32_t width, uint32_t height)
{
    if (rule->random)
        return random_box(rule->random, width, height);
    const double resized = floor(rule->side * 256.0 / 224.0), shorter = width < height ? width : height;
    const double side = rule->no_margin ? shorter : shorter * rule->side / resized;
    return middle(width, height, side, side);
}
