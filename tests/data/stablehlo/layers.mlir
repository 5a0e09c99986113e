module @layers {
  func.func public @main(%0: tensor<3xf32>, %1: tensor<5x3xf32>) -> (tensor<3xf32>) {
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3, %4 = "stablehlo.while"(%2, %0) ({
      ^bb0(%5: tensor<i32>, %6: tensor<3xf32>):
      %7 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %8 = "stablehlo.compare"(%5, %7) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%8) : (tensor<i1>) -> ()
    }, {
      ^bb0(%9: tensor<i32>, %10: tensor<3xf32>):
      %11 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %12 = "stablehlo.subtract"(%11, %9) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %13 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
      %14 = "stablehlo.dynamic_slice"(%1, %12, %13) <{slice_sizes = array<i64: 1, 3>}> : (tensor<5x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %15 = "stablehlo.reshape"(%14) : (tensor<1x3xf32>) -> tensor<3xf32>
      %16 = "stablehlo.multiply"(%10, %15) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %17 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %18 = "stablehlo.add"(%9, %17) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%18, %16) : (tensor<i32>, tensor<3xf32>) -> ()
    }) : (tensor<i32>, tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>)
    "func.return"(%4) : (tensor<3xf32>) -> ()
  }
}
