package formation

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"spore/wire/nodeapi"
)

// askTime bounds one question, on a machine of usual speed.
const askTime = 5 * time.Second

// Client asks other members.
type Client struct {
	// Cluster is the id of the cluster.
	Cluster string
	// API asks their nodes.
	API nodeapi.Client
	// Slow is by how much the machines are slower than usual.
	Slow int
}

// Ask implements Asker.
func (c *Client) Ask(ctx context.Context, service, member string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime*time.Duration(max(c.Slow, 1)))
	defer cancel()
	data, err := c.API.Read(ctx, member, nodeapi.Request{Path: nodeapi.FormationPath + service}, maxAnswer)
	if err != nil {
		return Answer{}, err
	}
	return readAnswer(bytes.NewReader(data), c.Cluster, member, service)
}

// Server answers for the members on this node.
type Server struct {
	// Cluster is the id of the cluster, Node this node's name.
	Cluster, Node string
	// Members lists by service who may ask.
	Members map[string][]string
	// Dir holds the files of the members of this machine.
	Dir string
	// Say is told of what could not be read.
	Say func(string)
}

// Answer answers GET /v1/formation/{service}, to members of this service alone.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, asks nodeapi.Caller) {
	service := r.PathValue("service")
	members, known := s.Members[service]
	switch {
	case !known:
		http.Error(w, s.Node+" is not a member of such a service; give all nodes the same configuration", http.StatusNotFound)
		return
	case asks.Name == "" || !asks.Is(nodeapi.Node) || !slices.Contains(members, asks.Name):
		http.Error(w, "the configuration of "+s.Node+" has no such member of "+service+"; give it the present one first", http.StatusForbidden)
		return
	}
	file, err := Read(s.Dir, service)
	if err != nil {
		s.Say(err.Error())
		http.Error(w, s.Node+" cannot read what it knows of itself; see its journal", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encodeAnswer(answer(s.Cluster, s.Node, service, file)))
}
