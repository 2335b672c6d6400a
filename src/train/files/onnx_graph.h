/* The nodes of an ONNX graph for a net, and which tensors they take; for onnx_file.c. */
#ifndef COMET_TRAIN_FILES_ONNX_GRAPH_H
#define COMET_TRAIN_FILES_ONNX_GRAPH_H

#include "comet/net.h"
#include "train/files/protobuf.h"

#define ONNX_OPSET 13

/* Field numbers of GraphProto in onnx.proto. */
enum {
    ONNX_GRAPH_NODE = 1,
    ONNX_GRAPH_NAME = 2,
    ONNX_GRAPH_INITIALIZER = 5,
    ONNX_GRAPH_INPUT = 11,
    ONNX_GRAPH_OUTPUT = 12,
    ONNX_GRAPH_VALUE = 13
};
/* Those of TensorProto, and types of elements. */
enum { ONNX_TENSOR_DIMS = 1, ONNX_TENSOR_TYPE = 2, ONNX_TENSOR_NAME = 8, ONNX_TENSOR_RAW = 9, ONNX_FLOAT = 1 };

/* Appends to `graph` a node for each layer, its constants, and the graph's inputs, outputs and the shapes of values between.
 * Weights are named after the layer, NAME.weight and so on; they are not in it. */
void onnx_graph_put_nodes(protobuf *graph, const comet_net *net);
void onnx_graph_put_values(protobuf *graph, const comet_net *net);

#endif
