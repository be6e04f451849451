//go:build integration

package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAnswersOnRecordAreThoseOfTheHostsTools runs each case with the tools of the host, where it has them.
func TestTheAnswersOnRecordAreThoseOfTheHostsTools(t *testing.T) {
	real := map[string]result{}
	for _, o := range cases() {
		if _, err := exec.LookPath(o.args[0]); err != nil {
			t.Logf("the host has no %s", o.args[0])
			continue
		}
		real[o.key()] = onHost(t, o)
	}
	if os.Getenv("UPDATE") != "" {
		data, err := json.MarshalIndent(real, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(realFile), 0o755))
		require.NoError(t, os.WriteFile(realFile, append(data, '\n'), 0o644))
		return
	}
	record := readReal(t)
	for key, r := range real {
		require.Equal(t, record[key], r, key)
	}
}

func onHost(t *testing.T, o one) result {
	dir := t.TempDir()
	for name, data := range given() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o640))
	}
	var out bytes.Buffer
	c := exec.Command(o.args[0], o.args[1:]...)
	c.Dir, c.Stdin, c.Stdout = dir, strings.NewReader(o.stdin), &out
	c.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "PACKAGE=demo", "TZ=UTC"}
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err, o.key())
	}
	r := result{Status: c.ProcessState.ExitCode(), Stdout: strconv.QuoteToASCII(out.String())}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		if old, ok := given()[e.Name()]; !ok || old != string(data) {
			if r.Files == nil {
				r.Files = map[string]string{}
			}
			r.Files[e.Name()] = string(data)
		}
	}
	return r
}
