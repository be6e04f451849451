package exposure

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is a program that runs a script in the place of systemd-analyze.
func program(t *testing.T, script string) string {
	file := filepath.Join(t.TempDir(), "systemd-analyze")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755))
	return file
}

var files = map[string]string{"gateway.service": "[Service]\nExecStart=/usr/bin/gateway\n", "gateway.service.d/90-role.conf": "[Service]\nUser=gateway\n"}

func TestTheFigureIsThatOfTheLastLine(t *testing.T) {
	level, err := Of(t.Context(), program(t, `
for last; do :; done
test "$1 $2 $3" = "security --offline=yes --no-pager" && grep -q ExecStart "$last" && grep -q User=gateway "$last.d/90-role.conf" || exit 1
echo "+ UMask= fine"
echo
echo "-> Overall exposure level for gateway.service: 4.3 OK :-)"
`), "gateway.service", files)
	require.NoError(t, err)
	require.Equal(t, Level{4.3, "OK"}, level)
}

func TestAProgramThatDoesNotSayHowExposedAServiceIs(t *testing.T) {
	for script, want := range map[string]string{
		"echo what >&2; echo no such unit >&2; exit 1": "ask systemd-analyze about gateway.service: exit status 1: no such unit",
		"echo fine": "ask systemd-analyze about gateway.service: its answer has no overall exposure level; this version of systemd is not known",
		`echo "-> Overall exposure level for x: 12.3 OK"`: "ask systemd-analyze about gateway.service: its answer has the exposure level 12.3, which is not from 0 to 10",
	} {
		_, err := Of(t.Context(), program(t, script), "gateway.service", files)
		require.EqualError(t, err, want)
	}
	_, err := Of(t.Context(), "/no/such/program", "gateway.service", files)
	require.ErrorContains(t, err, "no such file or directory")
	_, err = Of(t.Context(), "/no/such/program", "x.service", map[string]string{"../x.service": ""})
	require.ErrorContains(t, err, "internal error: ")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Of(ctx, program(t, "exec sleep 60"), "gateway.service", files)
	require.ErrorContains(t, err, "it did not answer within ")
}

// The program of this machine, whatever its version is.
func TestSystemdOfThisMachineTellsAHardenedServiceFromAnother(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	require.NoError(t, err, "it is of make deps")
	open, err := Of(t.Context(), analyze, "gateway.service", map[string]string{"gateway.service": files["gateway.service"]})
	require.NoError(t, err)
	closed, err := Of(t.Context(), analyze, "gateway.service", map[string]string{
		"gateway.service":                files["gateway.service"],
		"gateway.service.d/90-role.conf": "[Service]\nUser=gateway\nCapabilityBoundingSet=\nPrivateNetwork=yes\nSystemCallFilter=@system-service\n",
	})
	require.NoError(t, err)
	require.Greater(t, open.Figure, closed.Figure)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("-> Overall exposure level for x.service: 4.3 OK :-)\n"))
	f.Add([]byte("x\n→ Overall exposure level for x: 99999.9 UNSAFE"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if level, err := read(data); err == nil {
			require.True(t, level.Figure >= 0 && level.Figure <= 10)
			require.NotEmpty(t, level.Word)
		}
	})
}
