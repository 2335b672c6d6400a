/*
 * Nets with weights as ONNX files: opset 13, IR version 7, which every runtime since 2020 reads.
 *
 * The graph computes what a model in evaluation mode does, for any number of images. Its input is "input" (batch x channels x
 * height x width, float32, prepared as the net was trained on), its output "scores" (batch x classes, before softmax). A layer
 * is the node of its name, and its result is called NAME/out; weights have their names. SiLU is two nodes, NAME/sigmoid before
 * NAME; dropout is none. The metadata say what the net is in Comet's text format ("comet.net"), and, where the weights' file
 * says it, the names of classes ("comet.classes") and how images are prepared ("comet.input").
 */
#ifndef COMET_TRAIN_FILES_ONNX_FILE_H
#define COMET_TRAIN_FILES_ONNX_FILE_H

#include "comet/model.h"
#include "train/files/safetensors.h"

/* All or nothing. `metadata` is added to the file's. COMET_ERROR_UNSUPPORTED where the file would have 2 GiB or more, which
 * protocol buffers cannot; COMET_ERROR_DIVERGED at a weight that is not finite. */
comet_status onnx_file_save(const comet_model *model, const char *path, const safetensors_pair *metadata, size_t n_metadata);

#endif
