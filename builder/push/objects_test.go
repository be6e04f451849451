package push

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichObjectsAPushWouldChange(t *testing.T) {
	require.Empty(t, ObjectChanges(nil, nil))
	same := map[string]string{"ConfigMap web/a": "1", "Namespace web": "2"}
	require.Empty(t, ObjectChanges(same, same))
	require.Equal(t, []string{
		"would apply ConfigMap web/a, which is another", "would apply ConfigMap web/b, which is new", "would remove Namespace web",
	}, ObjectChanges(same, map[string]string{"ConfigMap web/a": "2", "ConfigMap web/b": "1"}))
	many := map[string]string{}
	for i := range 25 {
		many[fmt.Sprintf("ConfigMap web/%02d", i)] = "1"
	}
	lines := ObjectChanges(many, nil)
	require.Len(t, lines, 21)
	require.Equal(t, "would apply or remove 5 objects more", lines[20])
}
