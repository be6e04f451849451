package kubeapi

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"spore/wire/machine"
)

// Bounds of a look.
const (
	// lookPage is how many objects come at once, lookPages how many times; maxLook bounds an answer in bytes.
	lookPage, lookPages = 100, 100
	maxLook             = 16 << 20
	// maxListed bounds each list of what is not well, maxLookNodes the nodes, and maxLookText a text in bytes.
	maxListed, maxLookNodes, maxLookText = 200, 2000, 300
	// maxSearched is of how many workloads the pods are looked at, and maxSuspects how many of each.
	maxSearched, maxSuspects = 20, 50
)

// lookers is the group whose role may list what Look asks for, and nothing else: no secret, no log, no change.
const lookers, lookRole = "spore:lookers", "spore:look"

// lookObjects give the group its right.
func lookObjects() []applied {
	return []applied{
		{object: role(lookRole, []any{
			rule("", []string{"nodes", "pods", "persistentvolumes", "persistentvolumeclaims"}, "list"),
			rule("apps", []string{"deployments", "statefulsets", "daemonsets"}, "list"),
			rule("batch", []string{"jobs"}, "list"),
		})},
		{object: binding(lookRole, lookRole, "Group", lookers)},
	}
}

// Looker is the client as somebody who may only look: the API server takes its requests for those of the group of
// lookers (impersonation), so that its rules hold, whatever the certificate may. who is what the audit log has.
func (c *Client) Looker(who string) *Client {
	out := *c
	out.as, out.most = who, maxLook
	return &out
}

// look is what one call of Look has found.
type look struct {
	c   *Client
	out machine.Kubernetes
	// suspects are workloads that lack pods, with the selectors of theirs.
	suspects []suspect
	seen     map[string]bool
}

type suspect struct{ namespace, selector string }

// Look tells how the cluster is: the nodes, the workloads, the pods that are not well and why, the volumes. It lists
// in pages, and keeps what is shown. Of pods it lists those that neither run nor have succeeded, and those of workloads
// that lack some: a pod that runs, is not well and belongs to no workload is not found.
func (c *Client) Look(ctx context.Context) (machine.Kubernetes, error) {
	l := &look{c: c, seen: map[string]bool{}}
	steps := []func(context.Context) error{l.nodes}
	for _, w := range []struct{ path, kind string }{
		{"/apis/apps/v1/deployments", "Deployment"}, {"/apis/apps/v1/statefulsets", "StatefulSet"}, {"/apis/apps/v1/daemonsets", "DaemonSet"},
		{"/apis/batch/v1/jobs", "Job"},
	} {
		steps = append(steps, func(ctx context.Context) error { return l.workloads(ctx, w.path, w.kind) })
	}
	steps = append(steps, l.pods, func(ctx context.Context) error {
		return l.volumes(ctx, "/api/v1/persistentvolumes", "PersistentVolume", "Bound", "Available")
	}, func(ctx context.Context) error {
		return l.volumes(ctx, "/api/v1/persistentvolumeclaims", "PersistentVolumeClaim", "Bound")
	})
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return machine.Kubernetes{}, err
		}
	}
	return l.out, nil
}

// pages lists a collection in pages, and gives each object to each, which returns false when it wants no more. more
// says that there are others.
func pages[T any](ctx context.Context, c *Client, path string, q url.Values, each func(T) bool) (more bool, err error) {
	next := ""
	for range lookPages {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		ask := url.Values{"limit": {strconv.Itoa(lookPage)}}
		for k, v := range q {
			ask[k] = v
		}
		if next != "" {
			ask.Set("continue", next)
		}
		if err := c.get(ctx, path+"?"+ask.Encode(), &page); err != nil {
			return false, err
		}
		for _, item := range page.Items {
			if !each(item) {
				return true, nil
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return false, nil
		}
	}
	return true, nil
}

// brief bounds a text.
func brief(text string) string {
	if len(text) <= maxLookText {
		return text
	}
	end := maxLookText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + " …"
}

type lookMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type lookCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// says is a reason with its message.
func says(reason, message string) string {
	if reason == "" || message == "" {
		return brief(reason + message)
	}
	return brief(reason + ": " + message)
}

func (l *look) nodes(ctx context.Context) error {
	type object struct {
		Metadata lookMeta `json:"metadata"`
		Spec     struct {
			Unschedulable bool `json:"unschedulable"`
		} `json:"spec"`
		Status struct {
			Conditions []lookCondition `json:"conditions"`
			NodeInfo   struct {
				KubeletVersion string `json:"kubeletVersion"`
			} `json:"nodeInfo"`
		} `json:"status"`
	}
	more, err := pages(ctx, l.c, "/api/v1/nodes", nil, func(o object) bool {
		if len(l.out.Nodes) == maxLookNodes {
			return false
		}
		n := machine.KubernetesNode{Name: brief(o.Metadata.Name), Ready: "Unknown", Version: brief(o.Status.NodeInfo.KubeletVersion), Cordoned: o.Spec.Unschedulable}
		for _, c := range o.Status.Conditions {
			switch {
			case c.Type == "Ready":
				if n.Ready = brief(c.Status); c.Status != "True" {
					n.Why = says(c.Reason, c.Message)
				}
			case c.Status != "False" && len(n.Pressure) < 10:
				n.Pressure = append(n.Pressure, brief(c.Type))
			}
		}
		l.out.Nodes = append(l.out.Nodes, n)
		return true
	})
	l.more(more, "nodes")
	return err
}

// more notes that a list is not all there is.
func (l *look) more(more bool, what string) {
	if more && !slices.Contains(l.out.More, what) {
		l.out.More = append(l.out.More, what)
	}
}

// labelSelector is meta/v1's.
type labelSelector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

func (s labelSelector) text() string {
	var out []string
	for k, v := range s.MatchLabels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	for _, e := range s.MatchExpressions {
		switch e.Operator {
		case "In":
			out = append(out, e.Key+" in ("+strings.Join(e.Values, ",")+")")
		case "NotIn":
			out = append(out, e.Key+" notin ("+strings.Join(e.Values, ",")+")")
		case "Exists":
			out = append(out, e.Key)
		case "DoesNotExist":
			out = append(out, "!"+e.Key)
		}
	}
	return strings.Join(out, ",")
}

func (l *look) workloads(ctx context.Context, path, kind string) error {
	type object struct {
		Metadata lookMeta `json:"metadata"`
		Spec     struct {
			Replicas *int          `json:"replicas"`
			Selector labelSelector `json:"selector"`
		} `json:"spec"`
		Status struct {
			// Of a Deployment or StatefulSet, of a DaemonSet, and of a Job.
			ReadyReplicas int `json:"readyReplicas"`
			Desired       int `json:"desiredNumberScheduled"`
			NumberReady   int `json:"numberReady"`
			Active        int `json:"active"`
			Ready         int `json:"ready"`
		} `json:"status"`
	}
	count := machine.KubernetesCount{Kind: kind}
	more, err := pages(ctx, l.c, path, nil, func(o object) bool {
		wanted, ready := 1, o.Status.ReadyReplicas
		switch {
		case kind == "DaemonSet":
			wanted, ready = o.Status.Desired, o.Status.NumberReady
		case kind == "Job":
			wanted, ready = o.Status.Active, o.Status.Ready
		case o.Spec.Replicas != nil:
			wanted = *o.Spec.Replicas
		}
		if count.All++; ready >= wanted {
			count.Well++
			return true
		}
		if len(l.out.Behind) == maxListed {
			l.more(true, "workloads that lack pods")
			return true
		}
		l.out.Behind = append(l.out.Behind, machine.KubernetesWorkload{
			Kind: kind, Namespace: brief(o.Metadata.Namespace), Name: brief(o.Metadata.Name), Wanted: wanted, Ready: ready,
		})
		if selector := o.Spec.Selector.text(); selector != "" && len(l.suspects) < maxSearched {
			l.suspects = append(l.suspects, suspect{o.Metadata.Namespace, selector})
		} else {
			l.more(true, "pods of workloads that lack some")
		}
		return true
	})
	l.more(more, kind+"s")
	l.out.Counts = append(l.out.Counts, count)
	return err
}

type containerState struct {
	Waiting    *struct{ Reason, Message string } `json:"waiting"`
	Terminated *ended                            `json:"terminated"`
}

type ended struct {
	Reason     string `json:"reason"`
	ExitCode   int    `json:"exitCode"`
	FinishedAt string `json:"finishedAt"`
}

type lookPod struct {
	Metadata lookMeta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		Reason     string            `json:"reason"`
		Message    string            `json:"message"`
		Conditions []lookCondition   `json:"conditions"`
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	Ready        bool           `json:"ready"`
	RestartCount int            `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

func (l *look) pods(ctx context.Context) error {
	add := func(p lookPod) bool {
		if len(l.out.Pods) == maxListed {
			return false
		}
		key := p.Metadata.Namespace + "/" + p.Metadata.Name
		row, ill := illness(p)
		if ill && !l.seen[key] {
			l.seen[key] = true
			l.out.Pods = append(l.out.Pods, row)
		}
		return true
	}
	const what = "pods that are not well"
	more, err := pages(ctx, l.c, "/api/v1/pods", url.Values{"fieldSelector": {"status.phase!=Running,status.phase!=Succeeded"}}, add)
	l.more(more, what)
	if err != nil {
		return err
	}
	for _, s := range l.suspects {
		left := maxSuspects
		more, err := pages(ctx, l.c, "/api/v1/namespaces/"+url.PathEscape(s.namespace)+"/pods",
			url.Values{"fieldSelector": {"status.phase=Running"}, "labelSelector": {s.selector}, "limit": {strconv.Itoa(maxSuspects)}},
			func(p lookPod) bool { left--; return left >= 0 && add(p) })
		l.more(more, what)
		if err != nil {
			return err
		}
	}
	return nil
}

// illness says why a pod is not well; ill is false where it is.
func illness(p lookPod) (row machine.KubernetesPod, ill bool) {
	row = machine.KubernetesPod{
		Namespace: brief(p.Metadata.Namespace), Name: brief(p.Metadata.Name), Node: brief(p.Spec.NodeName), Phase: brief(p.Status.Phase),
		Why: says(p.Status.Reason, p.Status.Message),
	}
	ready, finished := false, ""
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == "Ready" && c.Status == "True":
			ready = true
		case c.Type == "PodScheduled" && c.Status == "False":
			row.Why = cmp.Or(row.Why, says(c.Reason, c.Message))
		}
	}
	for _, c := range slices.Concat(p.Status.Init, p.Status.Containers) {
		row.Restarts += c.RestartCount
		if w := c.State.Waiting; w != nil && (row.Why == "" || w.Reason != "PodInitializing") {
			row.Why = brief(c.Name + " waits, " + says(w.Reason, harmless(w.Reason, w.Message)))
		}
		for _, e := range []*ended{c.State.Terminated, c.LastState.Terminated} {
			if e != nil && e.FinishedAt >= finished && (e.ExitCode != 0 || e.Reason != "Completed") {
				finished = e.FinishedAt
				row.Ended = brief(fmt.Sprintf("%s: %s, code %d, %s", c.Name, e.Reason, e.ExitCode, e.FinishedAt))
			}
		}
	}
	if row.Why == "" {
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" {
				row.Why = says(c.Reason, c.Message)
			}
		}
	}
	row.Why = cmp.Or(row.Why, "it does not say why")
	return row, !ready
}

// harmless is the message of a container that waits. A container that cannot be started quotes its command, which may have a
// password: readers get no more than the reason then.
func harmless(reason, message string) string {
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
		"ContainerCreating", "PodInitializing":
		return message
	}
	return ""
}

func (l *look) volumes(ctx context.Context, path, kind string, well ...string) error {
	type object struct {
		Metadata lookMeta `json:"metadata"`
		Spec     struct {
			Class     string            `json:"storageClassName"`
			Capacity  map[string]string `json:"capacity"`
			Resources struct {
				Requests map[string]string `json:"requests"`
			} `json:"resources"`
		} `json:"spec"`
		Status struct {
			Phase   string `json:"phase"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"status"`
	}
	count := machine.KubernetesCount{Kind: kind}
	more, err := pages(ctx, l.c, path, nil, func(o object) bool {
		if count.All++; slices.Contains(well, o.Status.Phase) {
			count.Well++
			return true
		}
		if len(l.out.Volumes) == maxListed {
			l.more(true, "volumes")
			return true
		}
		l.out.Volumes = append(l.out.Volumes, machine.KubernetesVolume{
			Kind: kind, Namespace: brief(o.Metadata.Namespace), Name: brief(o.Metadata.Name), State: brief(o.Status.Phase), Class: brief(o.Spec.Class),
			Size: brief(cmp.Or(o.Spec.Capacity["storage"], o.Spec.Resources.Requests["storage"])), Why: says(o.Status.Reason, o.Status.Message),
		})
		return true
	})
	l.more(more, kind+"s")
	l.out.Counts = append(l.out.Counts, count)
	return err
}
