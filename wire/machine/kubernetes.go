package machine

// Kubernetes is a part of the answer to the verb kubernetes-status; lists go on from part to part.
type Kubernetes struct {
	Nodes []KubernetesNode `json:"nodes,omitempty"`
	// Counts are of workloads and volumes, by their kinds.
	Counts []KubernetesCount `json:"counts,omitempty"`
	// Behind are workloads that have fewer pods ready than they want.
	Behind []KubernetesWorkload `json:"behind,omitempty"`
	// Pods are those that are not well, and Volumes those that are neither bound nor available.
	Pods    []KubernetesPod    `json:"pods,omitempty"`
	Volumes []KubernetesVolume `json:"volumes,omitempty"`
	// More says of which of these lists there is more than was given, in words.
	More []string `json:"more,omitempty"`
}

// KubernetesNode is a node as kubelet reports it.
type KubernetesNode struct {
	Name string `json:"name"`
	// Ready is True, False or Unknown, and Why what kubelet or the controllers say where it is not True.
	Ready string `json:"ready"`
	Why   string `json:"why,omitempty"`
	// Pressure are the conditions that it suffers from, such as DiskPressure.
	Pressure []string `json:"pressure,omitempty"`
	Version  string   `json:"version"`
	// Cordoned says that it gets no new pods.
	Cordoned bool `json:"cordoned,omitempty"`
}

// KubernetesCount is how many of a kind there are, and how many of these are as they should be.
type KubernetesCount struct {
	Kind string `json:"kind"`
	All  int    `json:"all"`
	Well int    `json:"well"`
}

// KubernetesWorkload is a Deployment, StatefulSet, DaemonSet or Job with the number of pods it wants and has ready.
type KubernetesWorkload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Wanted    int    `json:"wanted"`
	Ready     int    `json:"ready"`
}

// KubernetesPod is a pod that is not well.
type KubernetesPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Node is empty where it has none.
	Node     string `json:"node,omitempty"`
	Phase    string `json:"phase"`
	Why      string `json:"why"`
	Restarts int    `json:"restarts,omitempty"`
	// Ended is how a container of it ended last.
	Ended string `json:"ended,omitempty"`
}

// KubernetesVolume is a PersistentVolume or a PersistentVolumeClaim.
type KubernetesVolume struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Class     string `json:"class,omitempty"`
	Size      string `json:"size,omitempty"`
	Why       string `json:"why,omitempty"`
}
