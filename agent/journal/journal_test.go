package journal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

// serve answers with what a script prints in the place of journalctl; the arguments are in $@.
func serve(t *testing.T, script string) *httptest.Server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	s := httptest.NewServer(&Reader{Program: path, Say: func(s string) { t.Log(s) }})
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s *httptest.Server, query string) (int, string) {
	t.Helper()
	res, err := http.Get(s.URL + "/?" + query)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(data)
}

func TestJournalctlIsAskedForOneUnit(t *testing.T) {
	s := serve(t, `printf '{"MESSAGE":"%s"}\n' "$*"`)
	code, text := get(t, s, "unit=kafka&lines=7")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, `{"MESSAGE":"--quiet --no-pager --all --output=json --output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT --lines=7 --unit=kafka.service"}`+"\n", text)
	_, text = get(t, s, "unit=kafka&unit=a.timer&lines=7")
	require.Contains(t, text, "--lines=7 --unit=kafka.service --unit=a.timer\"}")
	for query, want := range map[string]string{"": "the unit is missing", "unit=*": "is not a name of a unit", "unit=kafka&output=export": "no parameter"} {
		code, text := get(t, s, query)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, text, want)
	}
}

func TestAJournalThatCannotBeReadIsNoEmptyOne(t *testing.T) {
	code, text := get(t, serve(t, "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1"), "unit=kafka")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "this node cannot read its journal: journalctl: exit status 1: No journal files were opened due to insufficient permissions.")
	code, text = get(t, serve(t, "exit 0"), "unit=kafka")
	require.Equal(t, http.StatusOK, code, "a unit that has written nothing")
	require.Empty(t, text)
	code, text = get(t, serve(t, "exec >&-; sleep 0.2; exit 0"), "unit=kafka")
	require.Equal(t, http.StatusOK, code, "journalctl ends a moment after its output")
	require.Empty(t, text)
	code, text = get(t, serve(t, "exec >&-; sleep 0.2; echo damaged >&2; exit 1"), "unit=kafka")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "exit status 1: damaged")

	s := httptest.NewServer(&Reader{Program: "/nonexistent/journalctl", Say: func(string) {}})
	defer s.Close()
	code, text = get(t, s, "unit=kafka")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "start journalctl")
}

func TestAnEntryThatIsTooLongIsLeftOut(t *testing.T) {
	code, text := get(t, serve(t, fmt.Sprintf(`echo '{"MESSAGE":"a"}'; head -c %d /dev/zero | tr '\0' x; echo; echo '{"MESSAGE":"b"}'; printf '{"MESS'`, 3*nodeapi.MaxEntry)), "unit=kafka")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, `{"MESSAGE":"a"}`+"\n"+string(tooLong)+`{"MESSAGE":"b"}`+"\n", text, "and what was cut off, too")
	require.NoError(t, nodeapi.ReadEntries(strings.NewReader(text), func([]byte, nodeapi.Entry) error { return nil }))
}

func TestAFollowerGetsEachEntryAtOnceAndLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()
	pid, more := filepath.Join(dir, "pid"), filepath.Join(dir, "more")
	require.NoError(t, syscall.Mkfifo(more, 0o600))
	s := serve(t, fmt.Sprintf(`echo $$ >%s; echo '{"MESSAGE":"first"}'; exec cat %s`, pid, more))
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/?unit=kafka&follow=true", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" { // the pulse
				return lines.Text()
			}
		}
		return ""
	}
	require.Equal(t, `{"MESSAGE":"first"}`, next())
	w, err := os.OpenFile(more, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer w.Close()
	for i := range 3 {
		fmt.Fprintf(w, `{"MESSAGE":"%d"}`+"\n", i)
		require.Equal(t, fmt.Sprintf(`{"MESSAGE":"%d"}`, i), next(), "before the next is written")
	}
	leave()
	data, err := os.ReadFile(pid)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(n, 0) != nil }, 10*time.Second, 10*time.Millisecond, "journalctl ends with its reader")
}
