package cluster

import (
	"math"
	"reflect"
	"strconv"

	"gopkg.in/yaml.v3"
)

// free decodes a value whose type stands in no Go type: a text is a string, a number an int64 or float64, and what
// holds others a []any or map[string]any. It is nil after a fault.
func (d *decoder) free(n *yaml.Node, name string) any {
	switch n.Kind {
	case yaml.SequenceNode, yaml.MappingNode:
		var out any = new([]any)
		if n.Kind == yaml.MappingNode {
			out = new(map[string]any)
		}
		v := reflect.ValueOf(out).Elem()
		d.value(n, v, name)
		return v.Interface()
	}
	switch n.ShortTag() {
	case "!!str":
		return n.Value
	case "!!bool":
		if b, err := strconv.ParseBool(n.Value); err == nil {
			return b
		}
		d.fail(n, "%s is true or false in another spelling; write true or false", name)
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i
		}
		d.fail(n, "%s is not a whole number of at most 18 digits; write one such as 1500, without leading letters",
			name)
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
		d.fail(n, "%s is not a number that a file can hold; write one such as 0.5", name)
	default:
		d.fail(n, "%s is %s; put it into quotes if it is a text", name, kindOf(n))
	}
	return nil
}
