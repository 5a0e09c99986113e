module @linear {
  func.func public @main(%0: tensor<2x3xf32>, %1: tensor<4x3xbf16>) -> (tensor<2x4xf32>) {
    %2 = "stablehlo.convert"(%1) : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %3 = "stablehlo.transpose"(%2) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>
    %4 = "stablehlo.convert"(%0) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %5 = "stablehlo.dot_general"(%4, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x3xbf16>, tensor<4x3xbf16>) -> tensor<2x4xf32>
    "func.return"(%5) : (tensor<2x4xf32>) -> ()
  }
}
