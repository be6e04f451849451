package kubernetes

// Ports of the programs; the rows of the programs say at which addresses they listen.
const (
	PortEtcdClient        = 2379
	PortEtcdPeer          = 2380
	PortAPI               = 6443
	PortBalancer          = 6444
	PortClusterDNS        = 10053 // 53 is the role dns-server's, which the same machine may have
	PortContainerd        = 10010
	PortKubeletHealth     = 10248
	PortProxyMetrics      = 10249
	PortProxyHealth       = 10256
	PortFelixHealth       = 9099
	PortKubelet           = 10250
	PortControllerManager = 10257
	PortScheduler         = 10259
)
