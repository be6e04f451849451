// Package drain is the verbs drain and uncordon of Kubernetes: a master keeps new pods off a node and evicts those that
// it has, before somebody works on its machine, and lets pods on it again.
package drain

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/services/kubernetes"
	"spore/services/kubernetes/client"
	"spore/services/kubernetes/kubeapi"
	"spore/storage/atomicfile"
)

const (
	// role is that of masters; program and leaf are whose certificate is shown to the API server.
	role    = "control-plane"
	program = "kubernetes-bootstrap"
	leaf    = "kubernetes-agent"
	// maxSecret bounds a certificate and a key in bytes.
	maxSecret = 64 << 10
)

// Drain empties a node of Kubernetes.
func Drain(ctx context.Context, r *verbs.Run) (string, error) {
	name, c, err := open(r)
	if err != nil {
		return "", err
	}
	n, err := c.Drain(ctx, name, kubeapi.DrainOptions{
		Lose: r.Argument("lose", "no") == "yes", DryRun: r.Order.DryRun, Say: func(text string) { _ = r.Say("%s", text) },
	})
	if err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("%d pods of %s would be evicted", n, name), nil
	}
	return fmt.Sprintf("%s gets no new pods, and %d were evicted; let pods on it again with spore uncordon %s", name, n, name), nil
}

// Uncordon lets pods on a node again.
func Uncordon(ctx context.Context, r *verbs.Run) (string, error) {
	name, c, err := open(r)
	if err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("%s would get pods again", name), nil
	}
	changed, err := c.Cordon(ctx, name, false)
	switch {
	case err != nil:
		return "", err
	case !changed:
		return fmt.Sprintf("%s got pods before, too", name), nil
	}
	return fmt.Sprintf("%s gets pods again", name), nil
}

// open connects this master to the API server, about a node of the cluster that runs pods.
func open(r *verbs.Run) (string, *kubeapi.Client, error) {
	if err := master(r); err != nil {
		return "", nil, err
	}
	name := r.Argument("node", "")
	if !slices.Contains(r.Cluster.Members[role], name) && !slices.Contains(r.Cluster.Members["worker"], name) {
		return "", nil, fmt.Errorf("%.64q is no node of Kubernetes", name)
	}
	c, err := Connect(r)
	return name, c, err
}

// master refuses on a node that is none.
func master(r *verbs.Run) error {
	if slices.Contains(r.Node.Roles, role) {
		return nil
	}
	return fmt.Errorf("%s is no master (control-plane); masters are %s", r.Node.Name, strings.Join(r.Cluster.Members[role], ", "))
}

// Connect connects this master to the API server, by the certificate of its agent, which may everything. Who looks
// only takes kubeapi.Client.Looker of it.
func Connect(r *verbs.Run) (*kubeapi.Client, error) {
	if err := master(r); err != nil {
		return nil, err
	}
	o := kubeapi.Credentials{Server: client.Server}
	var err error
	for ref, into := range map[string]*[]byte{leaf + "-certificate": &o.Certificate, leaf + "-key": &o.Key} {
		if *into, err = atomicfile.ReadLimited(r.Machine.Root.At(filepath.Join(paths.Secrets, program, ref)), maxSecret); err != nil {
			return nil, fmt.Errorf("the certificate of this master: %w", err)
		}
	}
	if o.Authorities, err = r.Machine.Part.Public("kubernetes-server.crt"); err != nil {
		return nil, err
	}
	return kubeapi.NewClient(o, kubernetes.Of(r.Cluster.Services).Slow())
}
