package kubernetes

// Ports of the programs; the rows of the programs say at which addresses they listen.
const (
	PortEtcdClient        = 2379
	PortEtcdPeer          = 2380
	PortAPI               = 6443
	PortBalancer          = 6444
	PortClusterDNS        = 10053 // 53 is the role dns-server's, which the same machine may have
	PortClusterDNSMetrics = 9154  // and 9153 its
	PortContainerd        = 10010
	PortContainerdMetrics = 1338 // containerd's own documentation has it
	PortKubeletHealth     = 10248
	PortProxyMetrics      = 10249
	PortProxyHealth       = 10256
	PortFelixHealth       = 9099
	PortFelixMetrics      = 9091
	PortKubelet           = 10250
	PortControllerManager = 10257
	PortScheduler         = 10259
)
