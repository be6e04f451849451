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
	s := httptest.NewServer(answer(&Reader{Program: path, Say: func(s string) { t.Log(s) }}, false))
	t.Cleanup(s.Close)
	return s
}

func answer(j *Reader, audit bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { j.Answer(w, r, audit) })
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
	require.Equal(t, `{"MESSAGE":"--quiet --no-pager --all --output=json --output-fields=MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,_TRANSPORT --lines=7 `+
		`--unit=kafka.service _TRANSPORT=driver _TRANSPORT=journal _TRANSPORT=kernel _TRANSPORT=stdout _TRANSPORT=syslog"}`+"\n", text)
	_, text = get(t, s, "unit=kafka&unit=a.timer&lines=7")
	require.Contains(t, text, "--lines=7 --unit=kafka.service --unit=a.timer _TRANSPORT=")
	for query, want := range map[string]string{"unit=*": "is not a name of a unit", "unit=kafka&output=export": "no parameter"} {
		code, text := get(t, s, query)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, text, want)
	}
}

func TestAQuestionIsBoundedByJournalctl(t *testing.T) {
	s := serve(t, `printf '{"MESSAGE":"%s"}\n' "$*"`)
	_, text := get(t, s, "since=2026-11-26T09:00:00.5Z&until=2026-11-26T10:00:00Z&priority=err&boot=-1&lines=5")
	require.Contains(t, text, "--lines=5 --since=@1795683600.500000 --until=@1795687200.000000 --priority=3 --boot=-1 _TRANSPORT=driver ")
	_, text = get(t, s, "lines=5&grep=.")
	require.Contains(t, text, "--reverse _TRANSPORT=driver ")
	require.NotContains(t, text, "--lines")
	_, text = get(t, s, "lines=5&grep=.&follow=true")
	require.Contains(t, text, "--lines=5 --follow _TRANSPORT=driver ")

	_, text = get(t, s, "unit=ceph-osd@.service&unit=a@b.service")
	require.Contains(t, text, "--unit=ceph-osd@*.service --unit=a@b.service ")

	audit := httptest.NewServer(answer(&Reader{Program: "/bin/echo", Say: func(string) {}}, true))
	defer audit.Close()
	_, text = get(t, audit, "")
	require.NotContains(t, text, "_TRANSPORT=", "who may see audit records sees all")
}

func TestTheNewestThatMatchComeInTheOrderOfTime(t *testing.T) {
	// Such as journalctl with --reverse, which would go on for ever.
	s := serve(t, `i=1000; while [ $i -gt 0 ]; do printf '{"__REALTIME_TIMESTAMP":"%d","MESSAGE":"press %d"}\n' $i $i; i=$((i-1)); done
[ "$DONE" ] || exec cat /dev/zero | tr '\0' '\n'`)
	code, text := get(t, s, "lines=3&grep=press+%5Cd*7$")
	require.Equal(t, http.StatusOK, code)
	var got []string
	for line := range strings.Lines(text) {
		e, err := nodeapi.ParseEntry([]byte(line))
		require.NoError(t, err)
		got = append(got, e.Message)
	}
	require.Equal(t, []string{"press 977", "press 987", "press 997"}, got)
}

func TestWhatMatchesAndHasNoRoomIsSaid(t *testing.T) {
	s := serve(t, fmt.Sprintf(`for i in 9 8 7 6 5 4 3 2 1; do printf '{"__REALTIME_TIMESTAMP":"%%d","MESSAGE":"x' $i; head -c %d /dev/zero | tr '\0' x; echo '"}'; done`, 900<<10))
	_, text := get(t, s, "lines=100&grep=x")
	all := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, all, 5)
	require.Equal(t, `{"__REALTIME_TIMESTAMP":"5","MESSAGE":"(this entry and older ones were left out: the newer ones have 4 MiB)"}`, all[0])
	_, text = get(t, serve(t, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo`, 2*nodeapi.MaxEntry)), "grep=never")
	require.Contains(t, text, "was left out", "nobody knows whether it matches")
}

func TestAJournalThatEndsInTheMiddleSaysSo(t *testing.T) {
	code, text := get(t, serve(t, `echo '{"MESSAGE":"a"}'; sleep 0.1; echo 'bad "page"' >&2; exit 1`), "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `"(the journal was not read to its end: journalctl: exit status 1: bad \"page\")"`)
	code, text = get(t, serve(t, "echo 'Data from the specified boot (-1) is not available' >&2; exit 1"), "boot=-1&grep=x")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "specified boot (-1) is not available")
}

func TestAJournalThatCannotBeReadIsNoEmptyOne(t *testing.T) {
	t.Parallel()
	code, text := get(t, serve(t, "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1"), "unit=kafka")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "this node cannot read its journal: journalctl: exit status 1: No journal files were opened due to insufficient permissions.")
	none := "echo 'Failed to add filter for units: No data available' >&2; exit 1"
	code, text = get(t, serve(t, none), "unit=ceph-osd@.service")
	require.Equal(t, http.StatusOK, code, "no instance of a template has written anything")
	require.Empty(t, text)
	code, _ = get(t, serve(t, none), "unit=ceph-osd@0.service")
	require.Equal(t, http.StatusInternalServerError, code)
	code, text = get(t, serve(t, "exit 0"), "unit=kafka")
	require.Equal(t, http.StatusOK, code, "a unit that has written nothing")
	require.Empty(t, text)
	code, text = get(t, serve(t, "exec >&-; sleep 0.2; exit 0"), "unit=kafka")
	require.Equal(t, http.StatusOK, code, "journalctl ends a moment after its output")
	require.Empty(t, text)
	code, text = get(t, serve(t, "exec >&-; sleep 0.2; echo damaged >&2; exit 1"), "unit=kafka")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, text, "exit status 1: damaged")

	code, text = get(t, serve(t, "[ -e $0.once ] && exec echo '{\"MESSAGE\":\"its first\"}'; touch $0.once; "+none), "unit=ceph-osd@.service&follow=true")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, `{"MESSAGE":"its first"}`, strings.TrimSpace(text), "who follows sees an instance that comes later")

	s := httptest.NewServer(answer(&Reader{Program: "/nonexistent/journalctl", Say: func(string) {}}, false))
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

func TestAnAnswerThatEndsBeforeTheJournalDoesIsNotWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journalctl")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '{\"MESSAGE\":\"a\"}'; exec sleep 600"), 0o755))
	j := &Reader{Program: path, Say: func(s string) { t.Log(s) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond) // Such as at the end of the certificate.
		defer cancel()
		j.Answer(w, r.WithContext(ctx), false)
	}))
	defer s.Close()
	for _, query := range []string{"unit=kafka", "grep=a"} {
		res, err := http.Get(s.URL + "/?" + query)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		require.ErrorContains(t, err, "EOF", query)
	}
	code, text := get(t, s, "follow=true")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, `{"MESSAGE":"a"}`, strings.TrimSpace(text), "who follows is always ended so")
}

func TestWhoWaitsForLongHearsThatTheNodeIsThere(t *testing.T) {
	s := serve(t, `sleep 7; echo '{"MESSAGE":"rare"}'`)
	for _, query := range []string{"unit=kafka", "grep=rare"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			res, err := http.Get(s.URL + "/?" + query)
			require.NoError(t, err)
			defer res.Body.Close()
			require.Less(t, time.Since(begun), 7*time.Second, "before there is an entry, and within the 10 seconds that readers wait")
			data, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, "\n"+`{"MESSAGE":"rare"}`+"\n", string(data))
		})
	}
}
