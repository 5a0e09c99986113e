package dllm

import (
	"fmt"
	"unsafe"
)

// Number is an element that Go has too; f16 and bf16 are read as float32.
type Number interface {
	float32 | float64 | int32 | int64 | byte | int8 | uint32
}

// DType is the type of elements in the library.
type DType int32

// The element types.
const (
	F32  DType = dllmF32
	F16  DType = dllmF16
	BF16 DType = dllmBf16
	F64  DType = dllmF64
	I32  DType = dllmI32
	I64  DType = dllmI64
	U8   DType = dllmU8
	I8   DType = dllmI8
	U32  DType = dllmU32
)

// size is how many bytes an element takes.
func (d DType) size() int {
	switch d {
	case F64, I64:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16:
		return 2
	}
	return 1
}

func dtypeOf[T Number]() DType {
	switch any(*new(T)).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int32:
		return I32
	case int64:
		return I64
	case byte:
		return U8
	case int8:
		return I8
	}
	return U32
}

// Tensor is an array of the library: an element type, dimensions and elements, which never change.
type Tensor struct{ resource }

func newTensor(pointer handle) *Tensor {
	t := &Tensor{}
	t.adopt("tensor", pointer, dllm_tensor_release)
	return t
}

// dimsOf checks that dimensions fit the number of elements; without dimensions there is one row.
func dimsOf(count int, dims []int) ([]int64, error) {
	if len(dims) == 0 {
		return []int64{int64(count)}, nil
	}
	product, out := 1, make([]int64, len(dims))
	for i, extent := range dims {
		out[i], product = int64(extent), product*extent
	}
	if product != count {
		return nil, invalid(fmt.Sprintf("%d elements do not fill the dimensions %v", count, dims), "")
	}
	return out, nil
}

// NewTensor copies elements in row-major order; without dims they are one row.
func NewTensor[T Number](values []T, dims ...int) (*Tensor, error) {
	c := begin()
	defer c.end()
	var out handle
	shape, err := dimsOf(len(values), dims)
	if err != nil {
		c.fail(err)
	}
	if c.ok() {
		c.status(dllm_tensor_new(int32(dtypeOf[T]()), &shape[0], int64(len(shape)), address(values), &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTensor(out), nil
}

// DType is the type of the elements; 0 for a closed tensor.
func (t *Tensor) DType() DType {
	if !t.enter() {
		return 0
	}
	defer t.leave()
	return DType(dllm_tensor_dtype(t.pointer))
}

// Shape is the dimensions; nil for a closed tensor.
func (t *Tensor) Shape() []int {
	if !t.enter() {
		return nil
	}
	defer t.leave()
	shape := make([]int, dllm_tensor_rank(t.pointer))
	for axis := range shape {
		shape[axis] = int(dllm_tensor_dim(t.pointer, int64(axis)))
	}
	return shape
}

func (t *Tensor) count() int {
	count := 1
	for _, extent := range t.Shape() {
		count *= extent
	}
	return count
}

// Bytes copies the elements as they are stored, of any type.
func (t *Tensor) Bytes() ([]byte, error) {
	c := begin()
	defer c.end()
	self := c.use(t.object)
	if !c.ok() {
		return nil, c.err
	}
	data := dllm_tensor_data(self)
	if data == 0 {
		return nil, &Error{Code: FailedPrecondition, Message: "the tensor is not in host memory", Hint: "use ReadTensor"}
	}
	return bytesAt(data, t.count()*t.DType().size()), nil
}

// ReadTensor copies the elements, converted to T.
func ReadTensor[T Number](t *Tensor) ([]T, error) {
	c := begin()
	defer c.end()
	self := c.use(t.object)
	if !c.ok() {
		return nil, c.err
	}
	values := make([]T, t.count())
	size := len(values) * int(unsafe.Sizeof(*new(T)))
	c.status(dllm_tensor_read(self, int32(dtypeOf[T]()), address(values), int64(size), c.errp))
	return values, c.err
}
