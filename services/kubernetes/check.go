package kubernetes

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/form"
	"spore/cluster/spec"
)

var (
	podSecurityLevels = []string{PodSecurityPrivileged, PodSecurityBaseline, PodSecurityRestricted}
	auditLevels       = []string{AuditNone, AuditMetadata, AuditRequest}
)

const (
	// maxPodsPerNode is beyond what kubelets are run with.
	maxPodsPerNode = 500
	// maxServiceBits bounds a service network: kube-apiserver refuses more (maxCIDRBits in
	// cmd/kube-apiserver/app/options).
	maxServiceBits = 20
	// minServiceBits leaves room for the tenth address, which is the cluster's DNS server.
	minServiceBits = 4
	// minSnapshotEvery is beyond what masters take to fetch a snapshot from each other, in minutes; maxSnapshotEvery is a
	// week.
	minSnapshotEvery, maxSnapshotEvery = 10, 7 * 24 * 60
	// maxSnapshotKeep and maxSnapshotDays bound how many files there are.
	maxSnapshotKeep, maxSnapshotDays = 1000, 366
	// podBlockBits is the size of the blocks in which nodes take pod addresses (Calico's blockSize: /26 and /122).
	podBlockBits = 6
)

var versionLine = form.New(`^v1\.[0-9]{2,3}$`)

// checkSettings checks kubernetes.yaml, and the nodes and networks that Kubernetes is to have.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	switch {
	case s.Version != "" && !versionLine.MatchString(s.Version):
		k.Errorf(check.In(file, "version"), "the Kubernetes version %q is not a release line; write it as %s", check.Clip(s.Version), Line)
	case s.Version != "" && s.Version != Line:
		k.Errorf(check.In(file, "version"), "images of this spore carry Kubernetes %s, not %s; write %s, or leave version out", Line, s.Version, Line)
	}
	k.Between(check.In(file, "slowMachine"), "slowMachine", s.SlowMachine, 0, spec.MaxSlow)
	if s.MaxPods != 0 {
		k.Between(check.In(file, "maxPods"), "maxPods", s.MaxPods, 1, maxPodsPerNode)
	}
	if s.PodSecurity != "" {
		k.OneOf(check.In(file, "podSecurity"), "the pod security standard", s.PodSecurity, podSecurityLevels)
	}
	if s.Audit != "" {
		k.OneOf(check.In(file, "audit"), "the audit level", s.Audit, auditLevels)
	}
	checkSnapshots(k, file, s)
	checkServiceDomain(k, file, s)
	checkOIDC(k, file, s)
	checkContainerImages(k, file, s)
	checkNodes(k)
	checkNetworks(k, s)
}

func checkSnapshots(k *check.Checker, file check.File, s *Settings) {
	if s.Snapshots == nil {
		return
	}
	if every := s.Snapshots.Every; every != 0 {
		k.Between(check.In(file, "snapshots", "every"), "every (minutes)", every, minSnapshotEvery, maxSnapshotEvery)
	}
	if keep := s.Snapshots.Keep; keep != 0 {
		k.Between(check.In(file, "snapshots", "keep"), "keep", keep, 2, maxSnapshotKeep)
	}
	k.Between(check.In(file, "snapshots", "days"), "days", s.Snapshots.Days, -1, maxSnapshotDays)
}

func checkServiceDomain(k *check.Checker, file check.File, s *Settings) {
	p, domain := check.In(file, "dnsDomain"), s.ServiceDomain()
	switch nodes := k.Cluster.Domain; {
	case !check.IsDomain(domain):
		k.Errorf(p, "dnsDomain %q is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as %s", check.Clip(domain), defaultServiceDomain)
	case nodes == domain || strings.HasSuffix(nodes, "."+domain):
		k.Errorf(p, "the domain of the nodes, %s, lies in the domain of Kubernetes services, %s, so pods could not look up a node; choose another dnsDomain, such as %s", check.Clip(nodes), domain, defaultServiceDomain)
	}
}

// reference is NAME:TAG@sha256:DIGEST with the registry in it (OCI Distribution Specification, "Pulling manifests").
var reference = form.New(`^[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})(@sha256:[0-9a-f]{64})?$`)

func checkContainerImages(k *check.Checker, file check.File, s *Settings) {
	seen, files := k.Unique(), k.Unique()
	for i, image := range s.Images {
		p := check.In(file, "images", i)
		host, _, _ := strings.Cut(image, "/")
		switch {
		case !IsImageArchive(image) && (!reference.MatchString(image) || !strings.ContainsAny(host, ".:") && host != "localhost"):
			k.Errorf(p, "%q is neither an archive nor a reference; write a path in this folder that ends in .tar, such as images/app.tar, or registry, name, tag and digest, such as registry.example/app:1.2@sha256:…", check.Clip(image))
		case !IsImageArchive(image) && !strings.Contains(image, "@sha256:"):
			k.Errorf(p, "the reference %s can mean another image tomorrow; add its digest: %s@sha256:…", check.Clip(image), check.Clip(image))
		case !IsImageArchive(image):
			seen.Add(p, "the image", image, "remove one")
		case path.IsAbs(image) || path.Clean(image) != image || strings.HasPrefix(image, "../"):
			k.Errorf(p, "%q is not a path inside this folder; write one such as images/app.tar", check.Clip(image))
		case seen.Add(p, "the image", image, "remove one"):
			if err := k.Files[image]; err != nil {
				k.Errorf(p, "the archive %s cannot be read: %v; put it there (`skopeo copy` and `docker buildx` write OCI archives), or correct the path", check.Clip(image), err)
			}
			files.Add(p, "the name of the archive", path.Base(image), "archives are laid into the image by their names: rename one")
		}
	}
}

// checkNodes wants an address of every node: certificates are made for addresses of cluster.yaml alone.
func checkNodes(k *check.Checker) {
	for i, n := range k.Cluster.Nodes {
		if len(n.IPs) > 0 || !inKubernetes(k, i) {
			continue
		}
		why := "its kubelet's certificate is approved for addresses of this file alone"
		if k.HasRole(i, master) {
			why = "etcd, the API server and their certificates need one that never changes"
		}
		k.Errorf(check.In(k.File, "nodes", i), "node %s runs Kubernetes but has no address here, and %s; add ips", k.NodeName(i), why)
	}
}

// checkNetworks checks sizes and address families of the networks that Kubernetes gives out.
func checkNetworks(k *check.Checker, s *Settings) {
	at := func(key string, n netip.Prefix) check.Place {
		return check.In(k.File, "network", key, max(0, slices.Index(k.NetworkList(key), n.String())))
	}
	for _, n := range k.ServiceNets {
		switch bits := n.Addr().BitLen() - n.Bits(); {
		case bits > maxServiceBits:
			k.Errorf(at("serviceCIDRs", n), "%s is larger than the API server allows; write a prefix length of %d or more", n, n.Addr().BitLen()-maxServiceBits)
		case bits < minServiceBits:
			k.Errorf(at("serviceCIDRs", n), "%s has no tenth address, which is the cluster's DNS server; write a prefix length of %d or less, such as 10.96.0.0/16", n, n.Addr().BitLen()-minServiceBits)
		}
	}
	for _, key := range []string{"podCIDRs", "serviceCIDRs"} {
		list, others := k.Pods, k.ServiceNets
		other := "serviceCIDRs"
		if key == other {
			list, others, other = k.ServiceNets, k.Pods, "podCIDRs"
		}
		for _, n := range list {
			if len(others) > 0 && !hasFamily(others, n) {
				k.Errorf(at(key, n), "%s is %s, but %s has no such network; use each address family in both", n, check.Family(n.Addr()), other)
			}
			if len(k.Subnets) > 0 && !hasFamily(k.Subnets, n) {
				k.Errorf(at(key, n), "%s is %s, but the nodes have no such addresses; add a network to nodeSubnets or remove this one", n, check.Family(n.Addr()))
			}
		}
	}
	checkPodBlocks(k, s, at)
}

func hasFamily(list []netip.Prefix, n netip.Prefix) bool {
	return slices.ContainsFunc(list, func(o netip.Prefix) bool { return o.Addr().Is4() == n.Addr().Is4() })
}

// checkPodBlocks checks that every node finds blocks for its pods.
func checkPodBlocks(k *check.Checker, s *Settings, at func(string, netip.Prefix) check.Place) {
	nodes := 0
	for i := range k.Cluster.Nodes {
		if inKubernetes(k, i) {
			nodes++
		}
	}
	need := nodes * ((s.PodLimit() + 1<<podBlockBits - 1) >> podBlockBits)
	for _, n := range k.Pods {
		bits := n.Addr().BitLen() - n.Bits() - podBlockBits
		if bits > 24 || bits >= 0 && 1<<bits >= need {
			continue
		}
		have := 0
		if bits >= 0 {
			have = 1 << bits
		}
		k.Errorf(at("podCIDRs", n), "%s holds %d blocks of %d addresses, and %s with up to %d pods each need %d; write a larger network, such as 10.244.0.0/16", n, have, 1<<podBlockBits, check.Count(nodes, "node"), s.PodLimit(), need)
	}
}
