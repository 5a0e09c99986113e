package dllm

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// encode is a value as JSON. What JSON cannot hold is an error that names its place; name is what the caller calls the
// value, and a map or a struct has the names of its keys.
func encode(value any, name string) ([]byte, error) {
	data, err := json.Marshal(value)
	if found := fault(reflect.ValueOf(value), name, 0); found != "" {
		return nil, invalid(found, "")
	}
	return data, err
}

// deepest is more than any value has that does not hold itself.
const deepest = 100

// fault says what JSON cannot hold, with its place; "": there is nothing.
func fault(v reflect.Value, place string, depth int) string {
	if !v.IsValid() || depth > deepest || writesItself(v) {
		return ""
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return fault(v.Elem(), place, depth+1)
	case reflect.Float32, reflect.Float64:
		return notFinite(v.Float(), place)
	case reflect.String:
		return notText(v.String(), place)
	case reflect.Slice, reflect.Array:
		return faultOfItems(v, place, depth)
	case reflect.Map:
		return faultOfMap(v, place, depth)
	case reflect.Struct:
		return faultOfFields(v, place, depth)
	}
	return ""
}

// writesItself reports whether a type has its own JSON.
func writesItself(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

func notFinite(value float64, place string) string {
	shown := ""
	switch {
	case math.IsNaN(value):
		shown = "NaN"
	case math.IsInf(value, 1):
		shown = "Infinity"
	case math.IsInf(value, -1):
		shown = "-Infinity"
	default:
		return ""
	}
	return place + " is " + shown + ": write a finite number"
}

// notText finds bytes that are not UTF-8, which encoding/json would replace.
func notText(text, place string) string {
	if utf8.ValidString(text) {
		return ""
	}
	at := 1
	for rest := text; ; at++ {
		letter, size := utf8.DecodeRuneInString(rest)
		if letter == utf8.RuneError && size <= 1 {
			break
		}
		rest = rest[size:]
	}
	return fmt.Sprintf("%s: not UTF-8 at character %d", place, at)
}

func faultOfItems(v reflect.Value, place string, depth int) string {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return "" // bytes
	}
	item := inside(place, "item")
	if place == "messages" {
		item = "message"
	}
	for i := range v.Len() {
		if found := fault(v.Index(i), item+" "+strconv.Itoa(i+1), depth+1); found != "" {
			return found
		}
	}
	return ""
}

func faultOfMap(v reflect.Value, place string, depth int) string {
	for each := v.MapRange(); each.Next(); {
		key := fmt.Sprint(each.Key())
		if found := notText(key, fmt.Sprintf("the name %q", key)); found != "" {
			return found
		}
		if found := fault(each.Value(), inside(place, key), depth+1); found != "" {
			return found
		}
	}
	return ""
}

func faultOfFields(v reflect.Value, place string, depth int) string {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := inside(place, name)
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
			continue
		case name == "" && field.Anonymous:
			at = place
		case name == "":
			at = inside(place, field.Name)
		}
		if found := fault(v.Field(i), at, depth+1); found != "" {
			return found
		}
	}
	return ""
}

// inside is the place of a part.
func inside(place, part string) string {
	if place == "" {
		return part
	}
	return place + ", " + part
}
