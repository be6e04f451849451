package answers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/cluster/facts"
	"spore/cluster/spec"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// Who reads the kernel's audit records is what the configuration says now, also when it was changed meanwhile.
func TestWhoReadsAuditRecordsIsWhatTheClusterSays(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	m.Say = func(string) {}
	// A journalctl that says whether audit records are left out.
	program := m.Root.At("/usr/bin/journalctl")
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	script := "#!/bin/sh\ncase \"$*\" in *_TRANSPORT=*) echo '{\"MESSAGE\":\"without\"}' ;; *) echo '{\"MESSAGE\":\"with\"}' ;; esac\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	row := logsRow(m)
	file := filepath.Join(m.Part.Dir, facts.ClusterFile)
	for _, c := range []struct {
		name   string
		rights *spec.LogRights
		caller nodeapi.Caller
		want   string
	}{
		{"a reader", nil, nodeapi.Caller{Name: "rita", Roles: []nodeapi.Role{nodeapi.Reader}}, "without"},
		{"an operator", nil, nodeapi.Caller{Name: "otto", Roles: []nodeapi.Role{nodeapi.Operator}}, "with"},
		{"a reader whom the list names", &spec.LogRights{Audit: []string{"rita"}}, nodeapi.Caller{Name: "rita", Roles: []nodeapi.Role{nodeapi.Reader}}, "with"},
		{"an operator whom it does not", &spec.LogRights{Audit: []string{"rita"}}, nodeapi.Caller{Name: "otto", Roles: []nodeapi.Role{nodeapi.Operator}}, "without"},
		{"an admin", &spec.LogRights{Audit: []string{"rita"}}, nodeapi.Caller{Name: "anna", Roles: []nodeapi.Role{nodeapi.Admin}}, "with"},
		{"a list for pods", &spec.LogRights{Pods: []string{"reader"}}, nodeapi.Caller{Name: "rita", Roles: []nodeapi.Role{nodeapi.Reader}}, "without"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared, err := m.Part.Cluster()
			require.NoError(t, err)
			shared.LogRights = c.rights
			require.NoError(t, atomicfile.WriteJSON(file, shared))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { row.Handle(w, r, c.caller) }))
			defer server.Close()
			answer, err := http.Get(server.URL + nodeapi.LogsPath + "?lines=1")
			require.NoError(t, err)
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Contains(t, string(text), `"MESSAGE":"`+c.want+`"`)
		})
	}
	t.Run("nobody knows", func(t *testing.T) {
		require.NoError(t, os.WriteFile(file, []byte("{"), 0o644))
		w := httptest.NewRecorder()
		row.Handle(w, httptest.NewRequest("GET", nodeapi.LogsPath, nil), nodeapi.Caller{Name: "anna", Roles: []nodeapi.Role{nodeapi.Admin}})
		require.Equal(t, 500, w.Code)
		require.True(t, strings.HasPrefix(w.Body.String(), "this node does not know who may read which logs"))
	})
}
