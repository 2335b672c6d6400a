/* What element_lanes.h and element_variants.h define for one variant goes. */
#undef ELEMENT
#undef INLINE
#undef LOOP
#undef LOOP_TARGET
#undef LOOP_LANES
#undef LOOP_MASKS
#undef LOOP_BF16
