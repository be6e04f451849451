package rolehealth

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/role"
)

// numberOf is the port of a listener.
func numberOf(t *testing.T, a net.Addr) int {
	p, err := netip.ParseAddrPort(a.String())
	require.NoError(t, err)
	return int(p.Port())
}

func TestARoleListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	open, none := numberOf(t, l.Addr()), numberOf(t, closed.Addr())
	require.NoError(t, closed.Close())
	for name, tc := range map[string]struct {
		port      role.Port
		addresses []string
		want, err string
	}{
		"everywhere":           {role.Port{Port: open}, nil, "listens at 127.0.0.1:" + strconv.Itoa(open), ""},
		"on the loopback":      {role.Port{Port: open, At: role.Loopback}, []string{"203.0.113.1"}, "listens at 127.0.0.1:" + strconv.Itoa(open), ""},
		"nobody":               {role.Port{Port: none}, nil, "", "nobody listens at 127.0.0.1:" + strconv.Itoa(none) + ": connection refused"},
		"no address":           {role.Port{Port: open, At: role.Node}, nil, "", "the node has no address at which it could be asked"},
		"no address of others": {role.Port{Port: open, At: role.Node}, []string{"fe80::1", "127.0.0.1"}, "", "the node has no address at which it could be asked"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Asker
			for _, s := range tc.addresses {
				a.Addresses = append(a.Addresses, netip.MustParseAddr(s))
			}
			d := &role.Definition{Name: "x", Ports: []role.Port{{Port: tc.port.Port, Protocol: role.UDP, At: role.Loopback}, tc.port}, Health: &role.Health{Port: tc.port.Port}}
			got, err := a.Ask(t.Context(), d)
			require.Equal(t, tc.want, got)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestARoleAnswersARequest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/healthz?full=1":
			w.WriteHeader(http.StatusOK)
		case "/moved":
			http.Redirect(w, r, "/healthz?full=1", http.StatusFound)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	number := numberOf(t, s.Listener.Addr())
	at := s.URL
	for name, tc := range map[string]struct {
		http      role.HTTP
		want, err string
	}{
		"well":         {role.HTTP{Path: "/healthz?full=1"}, "GET " + at + "/healthz?full=1 is answered by the status 200", ""},
		"another path": {role.HTTP{Path: "/x"}, "", "GET " + at + "/x is answered by the status 503, and 200 is expected"},
		"as expected":  {role.HTTP{Path: "/x", Status: 503}, "GET " + at + "/x is answered by the status 503", ""},
		"elsewhere":    {role.HTTP{Path: "/moved"}, "", "GET " + at + "/moved is answered by the status 302, and 200 is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.http.Port = number
			d := &role.Definition{Name: "x", Ports: []role.Port{{Port: number}}, Health: &role.Health{HTTP: &tc.http}}
			got, err := Asker{}.Ask(t.Context(), d)
			require.Equal(t, tc.want, got)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
	s.Close()
	_, err := Asker{}.Ask(t.Context(), &role.Definition{Ports: []role.Port{{Port: number}}, Health: &role.Health{HTTP: &role.HTTP{Port: number, Path: "/"}}})
	require.EqualError(t, err, "GET "+at+"/: connection refused")
}

func TestARoleHasWrittenALineSinceItsStart(t *testing.T) {
	for name, tc := range map[string]struct {
		script    string
		invoked   bool
		want, err string
	}{
		"a line":                    {`echo Loading; echo "Ready  to accept"`, true, `x.service has written "Ready  to accept"`, ""},
		"a line with letters":       {`printf 'Ready \033[31m to accept\n'`, true, `x.service has written "Ready  [31m to accept"`, ""},
		"no line":                   {`echo Loading`, true, "", `no line of x.service since the start matches "Ready.*accept"`},
		"a journal without a start": {`case "$*" in *_SYSTEMD*) echo Loading;; esac`, true, "the journal no longer has what its units wrote at their start", ""},
		"a unit that does not run":  {`case "$*" in *--boot*--unit=x.service) echo Ready to accept;; esac`, false, `x.service has written "Ready to accept"`, ""},
		"one that never did":        {`exit 1`, false, "", `no line of x.service since the start matches "Ready.*accept"`},
		"a journal that fails":      {`exit 2`, true, "", "journalctl: exit status 2"},
		"behind a long line":        {`head -c 50000 /dev/zero | tr '\0' x; echo Ready to accept; echo Ready, accept`, true, `x.service has written "Ready, accept"`, ""},
		"nobody reads the rest":     {`echo Ready to accept; while :; do echo more; done`, true, `x.service has written "Ready to accept"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := Journal{Program: filepath.Join(t.TempDir(), "journalctl"), Units: t.TempDir()}
			require.NoError(t, os.WriteFile(j.Program, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o755))
			if tc.invoked {
				require.NoError(t, os.Symlink("0123", filepath.Join(j.Units, "invocation:x.service")))
			}
			d := &role.Definition{Name: "x", Units: []string{"x.service"}, Health: &role.Health{Journal: "Ready.*accept"}}
			got, err := Asker{Journal: j}.Ask(t.Context(), d)
			require.Equal(t, tc.want, got)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
	_, err := Asker{Journal: Journal{Program: "/nonexistent"}}.Ask(t.Context(), &role.Definition{Units: []string{"x.service"}, Health: &role.Health{Journal: "x"}})
	require.ErrorContains(t, err, "start journalctl")
}

func TestARoleWithoutHealthIsNotAsked(t *testing.T) {
	got, err := Asker{}.Ask(t.Context(), &role.Definition{})
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestTheJournalOfWhatATimerStarts(t *testing.T) {
	const empty, others = `exit 1`, `case "$*" in *--unit=x.service*) exit 1;; esac; echo wrote 1`
	for name, tc := range map[string]struct {
		script    string
		units     []string
		runs      bool
		want, err string
	}{
		"it has done its work":                {`echo wrote 1`, []string{"x.timer"}, false, `x.service has written "wrote 1"`, ""},
		"it did its work and does it again":   {`case "$*" in *--boot*) echo wrote 1;; esac`, []string{"x.timer"}, true, `x.service has written "wrote 1"`, ""},
		"it was not started yet":              {empty, []string{"x.timer"}, false, "x.service has not been started yet", ""},
		"it does its work for the first time": {`echo Starting`, []string{"x.timer"}, true, "x.service does its work", ""},
		"it ended without the line":           {`echo Starting`, []string{"x.timer"}, false, "", `no line of x.service since the start matches "wrote [0-9]"`},
		"another one has written it":          {others, []string{"x.timer", "y.timer"}, false, `y.service has written "wrote 1"`, ""},
		"it waits beside a service that has to write the line": {empty, []string{"x.timer", "y.service"}, false, "",
			`no line of x.service, y.service since the start matches "wrote [0-9]"`},
		"a journal that cannot be read": {`exit 2`, []string{"x.timer"}, false, "", "journalctl: exit status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			j := Journal{Program: filepath.Join(t.TempDir(), "journalctl"), Units: t.TempDir()}
			require.NoError(t, os.WriteFile(j.Program, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o755))
			if tc.runs {
				require.NoError(t, os.Symlink("0123", filepath.Join(j.Units, "invocation:x.service")))
			}
			d := &role.Definition{Name: "x", Units: tc.units, Health: &role.Health{Journal: "wrote [0-9]"}}
			got, err := Asker{Journal: j}.Ask(t.Context(), d)
			require.Equal(t, tc.want, got)
			if tc.err != "" {
				require.EqualError(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestALineThatWasFoundIsNotLookedForAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		units, again, anew []string
	}{
		"of a service":             {[]string{"x.service"}, nil, []string{"started"}},
		"of what a timer starts":   {[]string{"x.timer"}, nil, nil},
		"of what has ended by now": {[]string{"y.service"}, []string{"started"}, []string{"started"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := Journal{Program: filepath.Join(dir, "journalctl"), Units: dir, Lines: new(Lines)}
			note, link := filepath.Join(dir, "note"), filepath.Join(dir, "invocation:x.service")
			require.NoError(t, os.WriteFile(j.Program, []byte("#!/bin/sh\necho started >>"+note+"\necho wrote 1\n"), 0o755))
			ask := func(expression string) (started []string) {
				t.Helper()
				d := &role.Definition{Name: "x", Units: tc.units, Health: &role.Health{Journal: expression}}
				got, err := Asker{Journal: j}.Ask(t.Context(), d)
				require.NoError(t, err)
				require.Contains(t, got, `has written "wrote 1"`)
				text, err := os.ReadFile(note)
				if !errors.Is(err, fs.ErrNotExist) {
					require.NoError(t, err)
					require.NoError(t, os.Remove(note))
				}
				return strings.Fields(string(text))
			}
			require.NoError(t, os.Symlink("0123", link))
			require.Equal(t, []string{"started"}, ask("wrote [0-9]"))
			require.ElementsMatch(t, tc.again, ask("wrote [0-9]"))
			require.Equal(t, []string{"started"}, ask("wrote [1]"), "another expression")
			require.NoError(t, os.Remove(link))
			require.NoError(t, os.Symlink("4567", link))
			require.ElementsMatch(t, tc.anew, ask("wrote [1]"), "the unit was started again")
		})
	}
}
