package dashboard

import (
	"cmp"
	"context"
	"slices"

	"spore/fleet/kubernetesstatus"
	"spore/wire/machine"
)

const kubernetesPath = "/kubernetes"

// pods is the page of Kubernetes.
type pods struct {
	From      string
	Ready     int
	Nodes     []kubeNode
	All, More int
	Counts    []kubeCount
	Behind    []machine.KubernetesWorkload
	Pods      []machine.KubernetesPod
	Volumes   []machine.KubernetesVolume
	// Others are lists of which there is more than was given.
	Others []string
}

type kubeNode struct {
	Name, Ready, Version, Wrong string
	Level                       Level
	// Known says that it has a page.
	Known bool
}

type kubeCount struct {
	machine.KubernetesCount
	Level Level
}

func askKubernetes(ctx context.Context, w *inquiry, _ any) (any, error) {
	r, err := w.verb(ctx, master, "kubernetes-status", none)
	if err != nil {
		return nil, err
	}
	k, err := kubernetesstatus.Read(r.Results)
	if err != nil {
		return nil, err
	}
	p := podsOf(k)
	p.From = r.Node
	for _, n := range w.known() {
		for i := range p.Nodes {
			p.Nodes[i].Known = p.Nodes[i].Known || p.Nodes[i].Name == n.Name
		}
	}
	return p, nil
}

func podsOf(k machine.Kubernetes) *pods {
	p := &pods{All: len(k.Nodes), Others: k.More[:min(len(k.More), 20)]}
	for _, n := range k.Nodes {
		row := kubeNode{Name: n.Name, Ready: n.Ready, Version: n.Version, Wrong: kubernetesstatus.Wrong(n)}
		if n.Ready == "True" {
			p.Ready++
		}
		switch {
		case n.Ready != "True":
			row.Level = Critical
		case row.Wrong != "":
			row.Level = Warning
		}
		p.Nodes = append(p.Nodes, row)
	}
	slices.SortStableFunc(p.Nodes, func(a, b kubeNode) int { return cmp.Compare(b.Level, a.Level) })
	p.Nodes, p.More = cut(p.Nodes)
	for _, c := range k.Counts[:min(len(k.Counts), maxRows)] {
		row := kubeCount{KubernetesCount: c}
		if c.Well < c.All {
			row.Level = Warning
		}
		p.Counts = append(p.Counts, row)
	}
	// A node bounds these lists too; one that does not is no reason for a page without end.
	p.Behind = k.Behind[:min(len(k.Behind), maxRows)]
	p.Pods = k.Pods[:min(len(k.Pods), maxRows)]
	p.Volumes = k.Volumes[:min(len(k.Volumes), maxRows)]
	return p
}
