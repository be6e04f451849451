package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/sitebench"
)

func TestTheRowOfASite(t *testing.T) {
	r := &sitebench.Result{Nodes: 50, Pieces: 60, Size: 2 << 20, Uplink: 3 << 20, Fetches: 70, Most: 2, CPU: 9 * time.Second}
	lines := strings.Split(strings.TrimSpace(siteTable(r)), "\n")
	require.Len(t, lines, 3)
	for _, l := range lines {
		require.Equal(t, strings.Count(lines[1], "|"), strings.Count(l, "|"), l)
	}
	require.Equal(t, "| 50 | 60 | 2048 | 3072 | 2 | ≤ 2 | yes | 9.00 |", lines[2])
	r.Most = 3
	require.Contains(t, siteTable(r), "| 3 | ≤ 2 | **no** |")
	require.Contains(t, (&page{site: r}).text("pictures"), siteTable(r))
	require.NotContains(t, (&page{}).text("pictures"), "nodes of a site")
}

func TestASiteThatWasNotMeasuredIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.json")
	_, err := readSite(path)
	require.ErrorContains(t, err, "was not measured")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = readSite(path)
	require.ErrorContains(t, err, "read what a site fetched")
	require.NoError(t, os.WriteFile(path, []byte(`{"Nodes":50,"Most":1}`), 0o600))
	r, err := readSite(path)
	require.NoError(t, err)
	require.Equal(t, &sitebench.Result{Nodes: 50, Most: 1}, r)
}

func TestTheTestOfASiteIsThere(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", siteTests, "site_test.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), "func "+siteTest+"(")
}
