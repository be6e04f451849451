package answers

import (
	"encoding/json"
	"net/http"
	"slices"

	"spore/agent/api"
	"spore/agent/formation/quorum"
	"spore/agent/health"
	"spore/agent/node"
	"spore/agent/paths"
	"spore/agent/status"
	"spore/agent/verbs/majority"
	"spore/cluster/facts"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// memberRow tells the other members of a quorum whether this one serves now.
func memberRow(m *node.Machine, c *facts.Cluster, n *facts.Node) api.Row {
	quorums := map[string]health.Quorum{}
	for _, s := range quorum.Of(c, n) {
		quorums[s.Name] = health.Quorum{Service: s.Name, Unit: s.Unit, Members: s.Initial(c)}
	}
	return api.Row{Method: http.MethodGet, Path: nodeapi.QuorumPath + "{service}", Who: []nodeapi.Role{nodeapi.Node},
		Handle: func(w http.ResponseWriter, r *http.Request, asks nodeapi.Caller) {
			q, known := quorums[r.PathValue("service")]
			switch {
			case !known:
				http.Error(w, n.Name+" is not a member of such a service; give all nodes the same configuration", http.StatusNotFound)
				return
			case asks.Name == "" || asks.Ended || !slices.Contains(q.Members, asks.Name):
				http.Error(w, "the configuration of "+n.Name+" has no such member of "+q.Service, http.StatusForbidden)
				return
			}
			var line status.Line
			if err := atomicfile.ReadJSON(m.Root.At(paths.Status), &line); err != nil {
				http.Error(w, status.Missing(err).Error(), http.StatusServiceUnavailable)
				return
			}
			is := health.Member(line, q)
			if is.Serves && majority.Leaves(m) {
				is.Serves, is.Leaving, is.Reason = false, true, "it is about to leave for a while"
			}
			data, err := json.Marshal(is)
			if err != nil {
				http.Error(w, "internal error: "+err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append(data, '\n'))
		}}
}
