package roletests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"spore/agent/api"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// Row has the tests of a role of this node run. at is the path on this machine of a path of the node.
func Row(c *facts.Cluster, n *facts.Node, at func(string) string) api.Row {
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.RoleTestsPath + "{role}", Who: []nodeapi.Role{nodeapi.Admin},
		// The tests of one role disturb those of another.
		AtOnce: 1, Bound: role.TestsBound + 2*time.Minute, Traced: true,
		Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
			name := r.PathValue("role")
			own, _ := services.Of(c).Own(name)
			d, ok := own.(*role.Definition)
			if !ok || !slices.Contains(n.Roles, name) || len(d.Tests) == 0 {
				http.Error(w, fmt.Sprintf("this node has no role %.64q with tests", name), http.StatusNotFound)
				return
			}
			conn, err := new(net.Dialer).DialContext(r.Context(), "unix", at(d.TestSocket()))
			if err != nil {
				why := "the tests of the role cannot be run, since it was not started: " + err.Error()
				http.Error(w, why, http.StatusServiceUnavailable)
				return
			}
			defer conn.Close()
			w.Header().Set("Content-Type", "application/jsonl")
			pass(r.Context(), w, conn)
		},
	}
}

// pass hands on what a connection says, as it comes. Whoever asked counts the tests: what breaks off, he sees.
func pass(ctx context.Context, w http.ResponseWriter, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, _ = io.Copy(flushed{w, http.NewResponseController(w)}, conn)
}

// flushed is an answer of which nothing waits for more.
type flushed struct {
	w       io.Writer
	control *http.ResponseController
}

func (f flushed) Write(data []byte) (int, error) {
	n, err := f.w.Write(data)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}
