package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goMod is a go.mod as `go mod edit -json` prints it.
type goMod struct {
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		New struct{ Path, Version string }
	}
}

func readMod(t *testing.T, dir string) goMod {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	var m goMod
	require.NoError(t, json.Unmarshal(out, &m))
	return m
}

// The tests are of the Kubernetes that the image carries, and compile from the same sources.
func TestTheSuiteHasThePinsOfThePayload(t *testing.T) {
	payload, suite := readMod(t, "../../payloads/kubernetes"), readMod(t, "suite")
	pinned := map[string]string{}
	for _, r := range payload.Require {
		pinned[r.Path] = r.Version
	}
	for _, r := range suite.Require {
		if v, ok := pinned[r.Path]; ok {
			require.Equal(t, v, r.Version, r.Path)
		}
	}
	require.Equal(t, payload.Go, suite.Go)
	require.Equal(t, payload.Replace, suite.Replace)
}

// The page says how many tests there are, in all and by area.
func TestThePageHasTheNumbersOfTheList(t *testing.T) {
	data, err := os.ReadFile("testdata/tests.txt")
	require.NoError(t, err)
	tests := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.True(t, slices.IsSorted(tests))
	page, err := os.ReadFile("../../docs/conformance.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("All %d pass.", len(tests)))
	for area, group := range map[string]string{
		"API machinery": "api-machinery", "network": "network", "node": "node", "storage": "storage", "auth": "auth",
		"CLI": "cli", "apps": "apps", "instrumentation": "instrumentation", "scheduling": "scheduling",
	} {
		n := 0
		for _, name := range tests {
			if strings.HasPrefix(name, "[sig-"+group+"] ") {
				n++
			}
		}
		require.Contains(t, string(page), fmt.Sprintf("\n| %s | %d |", area, n))
	}
}
