//go:build integration

package grafana

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plant's Prometheus takes each query: none has what VictoriaMetrics alone understands.
func TestPrometheusTakesEachQuery(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	require.NoError(t, err, "promtool of Debian's package prometheus")
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, d := range load(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				values := map[string]string{"instance": "a|b", "job": "node"}
				rules = append(rules, rule{Record: "panel", Expr: Expand(q.Expr, values)})
			}
		}
	}
	check := func(rules []rule) (string, error) {
		data, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "rules.yaml") // JSON is YAML
		require.NoError(t, os.WriteFile(file, data, 0o600))
		out, err := exec.Command(tool, "check", "rules", "--lint=none", file).CombinedOutput()
		return string(out), err
	}
	out, err := check(rules)
	require.NoError(t, err, out)
	out, err = check([]rule{{Record: "panel", Expr: `label_set(up, "a", "b")`}})
	require.Error(t, err, out)
}
