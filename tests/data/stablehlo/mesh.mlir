module @mesh {
  func.func public @main(%0: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x2xf32>, tensor<1x16xf32>, tensor<4x4xf32>, tensor<i32>) {
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}> ({
      ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}> : (tensor<4x4xf32>) -> tensor<16x4xf32>
    %6 = "stablehlo.reduce_scatter"(%0) <{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>}> ({
      ^bb0(%7: tensor<f32>, %8: tensor<f32>):
      %9 = "stablehlo.add"(%7, %8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%9) : (tensor<f32>) -> ()
    }) : (tensor<4x4xf32>) -> tensor<4x2xf32>
    %10 = "stablehlo.all_to_all"(%0) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 4 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>}> : (tensor<4x4xf32>) -> tensor<1x16xf32>
    %11 = "stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2], [4, 5], [5, 4], [6, 7], [7, 6]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %12 = "stablehlo.replica_id"() : () -> tensor<ui32>
    %13 = "stablehlo.constant"() <{value = dense<2> : tensor<ui32>}> : () -> tensor<ui32>
    %14 = "stablehlo.divide"(%12, %13) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %15 = "stablehlo.constant"() <{value = dense<4> : tensor<ui32>}> : () -> tensor<ui32>
    %16 = "stablehlo.remainder"(%14, %15) : (tensor<ui32>, tensor<ui32>) -> tensor<ui32>
    %17 = "stablehlo.convert"(%16) : (tensor<ui32>) -> tensor<i32>
    "func.return"(%1, %5, %6, %10, %11, %17) : (tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x2xf32>, tensor<1x16xf32>, tensor<4x4xf32>, tensor<i32>) -> ()
  }
}
