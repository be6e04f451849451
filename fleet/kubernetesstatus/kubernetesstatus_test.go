package kubernetesstatus

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"name":"a","ready":"True","pressure":["x"]}],"more":["pods"]}`))
	f.Add([]byte(`{"pods":[{}],"volumes":null,"counts":[{"all":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		one, err := Read([]json.RawMessage{data})
		if err != nil {
			return
		}
		two, err := Read([]json.RawMessage{data, data})
		require.NoError(t, err)
		require.Len(t, two.Nodes, 2*len(one.Nodes))
		require.Len(t, two.Pods, 2*len(one.Pods))
		for _, n := range one.Nodes {
			_ = Wrong(n)
		}
	})
}
