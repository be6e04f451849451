package service

import (
	"slices"

	"spore/agent/metrics/family"
	"spore/services/logs"
	"spore/services/metrics"
)

// Table is the families that are taken of each program, by the program's name. Others are passed by. Labels that a row
// does not have are summed up over: of gauges, rows have all labels by which a sum would say nothing.
func Table() map[string][]family.Family {
	out := map[string][]family.Family{}
	for program, rows := range table {
		if !slices.Contains(terse, program) {
			rows = append(process(), rows...)
		}
		for _, f := range rows {
			f.From = program
			out[program] = append(out[program], f)
		}
	}
	return out
}

// terse are programs of ours that tell of their work alone.
var terse = []string{metrics.Bridge, logs.Sender, logs.Taker}

// process are the families of each program in Go.
func process() []family.Family {
	return []family.Family{
		gauge("go_goroutines", "Goroutines of the program."),
		counter("process_cpu_seconds_total", "Processor time of the program."),
		gauge("process_max_fds", "Files that the program can have open."),
		gauge("process_open_fds", "Files that the program has open."),
		gauge("process_resident_memory_bytes", "Memory of the program."),
		gauge("process_start_time_seconds", "When the program was started, in Unix time."),
	}
}

func counter(name, help string, labels ...string) family.Family {
	return family.Family{Name: name, Type: family.Counter, Labels: labels, Help: help}
}

// unknown is a counter whose name does not end with _total (package exposition, parse).
func unknown(name, help string, labels ...string) family.Family {
	return family.Family{Name: name, Type: family.Unknown, Labels: labels, Help: help}
}

func gauge(name, help string, labels ...string) family.Family {
	return family.Family{Name: name, Type: family.Gauge, Labels: labels, Help: help}
}

func histogram(name, help string, labels ...string) family.Family {
	return family.Family{Name: name, Type: family.Histogram, Labels: labels, Help: help}
}

func summary(name, help string, labels ...string) family.Family {
	return family.Family{Name: name, Type: family.Summary, Labels: labels, Help: help}
}

// ofCoreDNS are the families of both DNS servers.
func ofCoreDNS() []family.Family {
	return []family.Family{
		counter("coredns_dns_requests_total", "Questions.", "zone", "type", "proto"),
		counter("coredns_dns_responses_total", "Answers, by their codes.", "zone", "rcode"),
		histogram("coredns_dns_request_duration_seconds", "How long an answer takes.", "zone"),
		counter("coredns_panics_total", "Questions at which the program failed."),
		gauge("coredns_cache_entries", "Answers that are kept.", "type"),
		counter("coredns_cache_requests_total", "Questions that the kept answers were looked through for."),
		counter("coredns_cache_hits_total", "Questions that a kept answer answers.", "type"),
		counter("coredns_forward_healthcheck_broken_total", "How often no other server could be asked."),
		counter("coredns_forward_max_concurrent_rejects_total", "Questions that were refused since there were too many."),
		histogram("coredns_proxy_request_duration_seconds", "How long another server takes to answer.", "to", "rcode"),
		counter("coredns_proxy_healthcheck_failures_total", "How often another server did not answer.", "to"),
	}
}

var table = map[string][]family.Family{
	metrics.Manager: {
		gauge("alertmanager_alerts", "Alerts that fire, by what is done with them.", "state"),
		counter("alertmanager_alerts_received_total", "Alerts that rules sent.", "status"),
		counter("alertmanager_alerts_invalid_total", "Alerts that were malformed."),
		gauge("alertmanager_cluster_members", "Alertmanagers that know of each other; without a second one, 0."),
		gauge("alertmanager_cluster_failed_peers", "Alertmanagers that cannot be reached."),
		gauge("alertmanager_dispatcher_aggregation_groups", "Groups of alerts that are told together."),
		counter("alertmanager_notification_requests_total", "Times that a receiver was asked to take a message.",
			"receiver_name", "integration"),
		counter("alertmanager_notification_requests_failed_total", "Times that a receiver did not take a message.",
			"receiver_name", "integration"),
		counter("alertmanager_notifications_total", "Messages for a receiver, however often it was asked.",
			"receiver_name", "integration"),
		counter("alertmanager_notifications_failed_total", "Messages that were given up for a time.",
			"receiver_name", "integration"),
		gauge("alertmanager_silences", "Silences.", "state"),
	},
	metrics.Bridge: {
		counter("spore_alerts_messages_total", "Messages of Alertmanager for a receiver of the bridge, and heartbeats.",
			"receiver"),
		counter("spore_alerts_messages_failed_total", "Messages that the receiver did not take.", "receiver"),
	},
	logs.Sender: {
		counter("spore_logs_sent_total", "Entries that were taken up for a store, by where they are from.", "store", "source"),
		counter("spore_logs_acknowledged_total", "Entries that a store has on its disk.", "store", "source"),
		gauge("spore_logs_acknowledged_timestamp_seconds", "When a store acknowledged something last, in Unix time.", "store"),
		gauge("spore_logs_behind_seconds", "Age of the oldest entry that a store has not acknowledged.", "store"),
		gauge("spore_logs_store_reached", "1 where the last batch was taken, 0 where it waits.", "store"),
		counter("spore_logs_dropped_by_journal_total",
			"Entries that the journal has lost: it was full, a unit wrote too much (rate), or the kernel did.", "store", "why"),
		counter("spore_logs_cut_total", "Entries of which something was cut off.", "store", "source"),
		counter("spore_logs_malformed_total", "Entries that a store refused for ever, and that were dropped.", "store"),
		counter("spore_logs_lost_files_total", "Files that went before they were read to their end.", "source"),
		counter("spore_logs_lost_bytes_total", "What is known of the length of such files.", "source"),
		counter("spore_logs_malformed_lines_total", "Lines of files that were left out because they are malformed.", "source"),
		counter("spore_logs_unreadable_total", "Uploads of the journal that could not be read.", "store"),
		counter("spore_logs_duplicates_total", "Entries that came again and were left out.", "store"),
		counter("spore_logs_refused_peers_total", "Connections of other programs than journal-upload."),
		counter("spore_logs_sent_bytes_total", "What was sent, compressed.", "store"),
		counter("spore_logs_batches_total", "Batches that were sent, by what the store said.", "store", "answer"),
	},
	logs.Taker: {
		counter("spore_logs_store_taken_total", "Entries of a node that the store has taken.", "node"),
		counter("spore_logs_store_taken_bytes_total", "Those entries, as lines of JSON.", "node"),
		counter("spore_logs_store_duplicates_total", "Entries that came again and were left out."),
		counter("spore_logs_store_malformed_total", "Batches and entries of a node that could not be read.", "node"),
		counter("spore_logs_store_clamped_total", "Entries of a node whose time is too far from the store's.", "node"),
		gauge(logs.ClockAhead, "By how many seconds a node's clock is ahead of the store's; negative where it is behind.", "node"),
		counter("spore_logs_store_taken_cut_total", "Entries of which something was cut off."),
		counter("spore_logs_store_refused_total", "Batches of a node that were refused; it keeps those that it may send again.",
			"node"),
		counter("spore_logs_store_written_total", "Entries that VictoriaLogs has taken."),
		counter("spore_logs_store_certain_total", "Entries that VictoriaLogs has on its disk."),
		counter("spore_logs_store_again_total", "Entries that were sent again, since VictoriaLogs was started again."),
		counter("spore_logs_store_write_refused_total", "Entries that VictoriaLogs will never take."),
		counter("spore_logs_store_write_failures_total", "How often VictoriaLogs was away or took nothing."),
		gauge("spore_logs_store_full", "1 where the disk of VictoriaLogs is full, so that it takes nothing."),
		gauge("spore_logs_queue_bytes", "What the queue of the store has on disk."),
		gauge("spore_logs_queue_bound_bytes", "What the queue may have."),
		counter("spore_logs_queue_corrupt_bytes_total", "What could not be read of the queue."),
		gauge("spore_logs_queue_behind_bytes", "What a reader of the queue has before it.", "consumer"),
		gauge("spore_logs_queue_behind_seconds",
			"How long the oldest entry has waited for a reader; VictoriaLogs is always half a minute behind.", "consumer"),
		counter("spore_logs_queue_dropped_total", "Entries that a reader has lost, since the queue was full.", "consumer"),
		counter("spore_logs_given_total", "Entries that a receiver has.", "receiver"),
		counter("spore_logs_give_filtered_total", "Entries that a receiver does not want.", "receiver"),
		counter("spore_logs_give_refused_total", "Entries that a receiver refused for ever.", "receiver"),
		counter("spore_logs_give_failures_total", "How often a receiver was away or took nothing.", "receiver"),
	},
	logs.Program: {
		gauge("spore_logs_store_size_bytes", "What entries and their index fill."),
		gauge("spore_logs_store_bound_bytes", "What they may fill; 0 is without a bound."),
		gauge("spore_logs_store_free_bytes", "What the disk of the store has free."),
		gauge("spore_logs_store_partitions", "How many days the store has, a partition each."),
		gauge("spore_logs_store_oldest_timestamp_seconds", "When the oldest day of the store began, in Unix time."),
		counter("spore_logs_store_removed_partitions_total", "How many days went."),
		gauge("spore_logs_store_over_bound", "1 where one day alone fills more than all may."),
		gauge("spore_logs_store_read_only", "1 where the store takes nothing for want of space."),
		counter("vl_bytes_ingested_total", "What VictoriaLogs was given.", "type"),
		counter("vl_rows_ingested_total", "Entries that VictoriaLogs was given.", "type"),
		counter("vl_rows_dropped_total", "Entries that VictoriaLogs did not take, since their form or time is none.", "reason"),
		gauge("vl_storage_is_read_only", "1 where VictoriaLogs takes nothing.", "path"),
		gauge("vl_storage_rows", "Entries that are stored.", "type"),
		counter("vl_streams_created_total", "Streams of entries that began."),
		counter("vl_slow_queries_total", "Questions that took long."),
		counter("vl_concurrent_select_limit_timeout_total", "Questions that were refused since there were too many."),
	},
	metrics.Evaluator: {
		counter("vmalert_alerting_rules_errors_total", "Times that a rule could not be evaluated.", "alertname"),
		counter("vmalert_alerts_send_errors_total", "Alerts that Alertmanager did not take."),
		counter("vmalert_alerts_sent_total", "Alerts that Alertmanager took."),
		counter("vmalert_execution_errors_total", "Rules that could not be evaluated."),
		counter("vmalert_execution_total", "Rules that were evaluated."),
		counter("vmalert_iteration_missed_total", "Times that a group of rules was late for its next look.", "group"),
		counter("vmalert_remotewrite_dropped_rows_total", "Samples of alerts that the store did not take."),
	},
	"calico-node": {
		gauge("felix_resync_state", "What Felix knows of the cluster: 1 nothing, 2 a part, 3 all."),
		unknown("felix_resyncs_started", "How often Felix asked for all of the cluster anew."),
		unknown("felix_int_dataplane_failures", "Changes of the kernel's settings that failed; they are tried again."),
		gauge("felix_int_dataplane_initial_resync_time_seconds", "How long Felix took to set up the kernel at its start."),
		summary("felix_int_dataplane_apply_time_seconds", "How long a change of the kernel's settings takes."),
		summary("felix_calc_graph_update_time_seconds", "How long a change of the cluster takes to be reckoned."),
		gauge("felix_active_local_endpoints", "Interfaces of pods on the node."),
		gauge("felix_active_local_policies", "Policies that hold for pods on the node."),
		gauge("felix_cluster_num_hosts", "Nodes that Felix knows."),
		gauge("felix_cluster_num_workload_endpoints", "Interfaces of pods that Felix knows."),
		gauge("felix_cluster_num_policies", "Policies that Felix knows."),
		unknown("felix_nft_calls", "Changes of the rules of nftables."),
		unknown("felix_nft_errors", "Changes of the rules of nftables that failed."),
		unknown("felix_nft_set_errors", "Changes of the sets of nftables that failed."),
		gauge("felix_nft_chains", "Chains of nftables.", "ip_version"),
		gauge("felix_nft_rules", "Rules of nftables.", "ip_version"),
		gauge("felix_nft_sets", "Sets of nftables.", "ip_version"),
		gauge("felix_route_table_num_routes", "Routes that Felix keeps.", "table"),
		gauge("felix_route_table_num_ifaces", "Interfaces that Felix watches for their routes.", "table"),
		summary("felix_route_table_resync_seconds", "How long it takes to list all routes."),
		unknown("felix_log_errors", "Lines of the journal that failed."),
		unknown("felix_logs_dropped", "Lines of the journal that were left out."),
	},
	"cluster-dns": append(ofCoreDNS(),
		histogram("coredns_kubernetes_dns_programming_duration_seconds",
			"How long a change of a Service takes to be in the answers.", "service_kind"),
		counter("coredns_kubernetes_rest_client_requests_total", "Requests to the API server.", "code", "method"),
	),
	"containerd": {
		histogram("containerd_cri_sandbox_runtime_create_seconds", "How long it takes to begin a pod."),
		histogram("containerd_cri_sandbox_create_network_seconds", "How long a pod takes to have its network."),
		histogram("containerd_cri_sandbox_delete_network_seconds", "How long it takes to take a pod's network back."),
		histogram("containerd_cri_container_create_seconds", "How long it takes to make a container."),
		histogram("containerd_cri_container_start_seconds", "How long it takes to start a container."),
		histogram("containerd_cri_container_stop_seconds", "How long it takes to stop a container."),
		histogram("containerd_cri_container_list_seconds", "How long it takes to list all containers."),
		counter("containerd_cri_container_events_dropped_total", "Events of containers that kubelet was not told."),
		counter("containerd_cri_network_plugin_operations_total_total", "Calls of the network's program.", "operation_type"),
		counter("containerd_cri_network_plugin_operations_errors_total_total",
			"Calls of the network's program that failed.", "operation_type"),
		counter("containerd_gc_collections_total", "How often it was looked for what nobody needs any more.", "status"),
		histogram("containerd_gc_gc_seconds", "How long that takes."),
		counter("grpc_server_handled_total", "Calls that containerd answered.", "grpc_code"),
	},
	"coredns": ofCoreDNS(),
	"etcd": {
		gauge("etcd_server_has_leader", "1 while the member has a leader."),
		gauge("etcd_server_is_leader", "1 where the member is the leader."),
		gauge("etcd_server_is_learner", "1 where the member does not vote."),
		counter("etcd_server_leader_changes_seen_total", "Changes of the leader that the member has seen."),
		gauge("etcd_server_proposals_committed_total", "Changes that the members have agreed on."),
		gauge("etcd_server_proposals_applied_total", "Changes that the member has made."),
		gauge("etcd_server_proposals_pending", "Changes that wait for the other members."),
		counter("etcd_server_proposals_failed_total", "Changes that the members did not agree on."),
		counter("etcd_server_slow_apply_total", "Changes that took long."),
		counter("etcd_server_slow_read_indexes_total", "Reads that took long to be known as the newest."),
		counter("etcd_server_read_indexes_failed_total", "Reads that failed."),
		counter("etcd_server_heartbeat_send_failures_total", "Heartbeats of the leader that were late."),
		unknown("etcd_server_health_failures", "Questions for the member's health that failed."),
		gauge("etcd_server_quota_backend_bytes", "Size at which the database takes no more writes."),
		gauge("etcd_mvcc_db_total_size_in_bytes", "Size of the file of the database."),
		gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Size of what is used of the file of the database."),
		histogram("etcd_disk_wal_fsync_duration_seconds", "How long the disk takes to have a change."),
		histogram("etcd_disk_backend_commit_duration_seconds", "How long the disk takes to have a part of the database."),
		histogram("etcd_network_peer_round_trip_time_seconds", "How long another member takes to answer.", "To"),
		counter("etcd_network_peer_sent_failures_total", "Messages to another member that failed.", "To"),
		counter("grpc_server_handled_total", "Calls that the member answered.", "grpc_code"),
	},
	"kube-apiserver": {
		counter("apiserver_request_total", "Requests.", "verb", "code"),
		histogram("apiserver_request_duration_seconds", "How long requests take.", "verb"),
		gauge("apiserver_current_inflight_requests", "Requests that are being answered.", "request_kind"),
		gauge("apiserver_longrunning_requests", "Requests that go on, as watches do.", "verb"),
		counter("apiserver_request_terminations_total", "Requests that the server gave up to protect itself.", "code"),
		counter("apiserver_flowcontrol_rejected_requests_total", "Requests that were refused for their number.", "reason"),
		counter("apiserver_tls_handshake_errors_total", "TLS handshakes that failed."),
		counter("apiserver_audit_event_total", "Records of the audit."),
		counter("apiserver_audit_requests_rejected_total", "Requests that were refused since they could not be recorded."),
		gauge("apiserver_resource_objects", "Objects.", "group", "resource"),
		gauge("apiserver_storage_size_bytes", "Size of the database, as etcd tells the server."),
		gauge("aggregator_unavailable_apiservice", "1 where a part of the API that another program answers is away.", "name"),
		counter("etcd_requests_total", "Requests to etcd.", "operation"),
		counter("etcd_request_errors_total", "Requests to etcd that failed.", "operation"),
		histogram("etcd_request_duration_seconds", "How long etcd takes to answer.", "operation"),
	},
	"kube-controller-manager": {
		gauge("leader_election_master_status", "1 where this one works.", "name"),
		gauge("node_collector_unhealthy_nodes_in_zone", "Nodes that are not ready.", "zone"),
		gauge("node_collector_zone_size", "Nodes.", "zone"),
		counter("node_collector_evictions_total", "Nodes whose pods were moved away.", "zone"),
		gauge("workqueue_depth", "Objects that wait for a controller.", "name"),
		counter("workqueue_adds_total", "Objects that a controller was given.", "name"),
		counter("workqueue_retries_total", "Objects that a controller had to look at again.", "name"),
		counter("rest_client_requests_total", "Requests to the API server.", "code", "method"),
	},
	"kube-scheduler": {
		gauge("leader_election_master_status", "1 where this one works.", "name"),
		gauge("scheduler_pending_pods", "Pods that wait for a node.", "queue"),
		gauge("scheduler_unschedulable_pods", "Pods that no node can take, by what keeps them.", "plugin"),
		counter("scheduler_schedule_attempts_total", "Attempts to find a node for a pod.", "result"),
		histogram("scheduler_pod_scheduling_sli_duration_seconds", "How long a pod waits until it has a node."),
		gauge("scheduler_cache_size", "Nodes and pods that the scheduler knows.", "type"),
		counter("rest_client_requests_total", "Requests to the API server.", "code", "method"),
	},
	"kubelet": {
		gauge("kubelet_running_pods", "Pods that run."),
		gauge("kubelet_running_containers", "Containers, by their states.", "container_state"),
		gauge("kubelet_desired_pods", "Pods that should run.", "static"),
		histogram("kubelet_pleg_relist_duration_seconds", "How long it takes to list all containers."),
		gauge("kubelet_pleg_last_seen_seconds", "When all containers were listed last, in Unix time."),
		histogram("kubelet_pod_start_sli_duration_seconds", "How long a pod takes to run, without pulling images."),
		counter("kubelet_started_pods_total", "Pods that were started."),
		counter("kubelet_started_pods_errors_total", "Pods that could not be started."),
		counter("kubelet_started_containers_total", "Containers that were started.", "container_type"),
		counter("kubelet_started_containers_errors_total", "Containers that could not be started.", "code"),
		counter("kubelet_runtime_operations_total", "Calls of containerd.", "operation_type"),
		counter("kubelet_runtime_operations_errors_total", "Calls of containerd that failed.", "operation_type"),
		unknown("kubelet_evictions", "Pods that were ended for lack of memory or disk.", "eviction_signal"),
		gauge("kubelet_volume_stats_capacity_bytes", "Size of a volume.", "namespace", "persistentvolumeclaim"),
		gauge("kubelet_volume_stats_available_bytes", "What is free of a volume.", "namespace", "persistentvolumeclaim"),
		gauge("kubelet_volume_stats_inodes", "Files that a volume has room for.", "namespace", "persistentvolumeclaim"),
		gauge("kubelet_volume_stats_inodes_free",
			"Files that still fit into a volume.", "namespace", "persistentvolumeclaim"),
		counter("rest_client_requests_total", "Requests to the API server.", "code", "method"),
	},
	"kube-proxy": {
		histogram("kubeproxy_sync_proxy_rules_duration_seconds", "How long it takes to write the rules of Services."),
		gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds",
			"When rules were written last, in Unix time.", "ip_family"),
		counter("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "Rules that could not be written.", "ip_family"),
		histogram("kubeproxy_network_programming_duration_seconds", "How long a Service takes to be in the rules."),
		counter("rest_client_requests_total", "Requests to the API server.", "code", "method"),
	},
}
