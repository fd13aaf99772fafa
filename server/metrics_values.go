package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/mqtt"
)

// snapshot is what one scrape reads.
type snapshot struct {
	runtime entity.Stats
	mqtt    mqtt.Stats
	streams int

	logins   access.Stats
	sessions int

	mappings  mapping.Stats
	alarms    alarm.Stats
	retention retention.Status
	bulk      int
	columns   int
}

func newSnapshot(s *Server) *snapshot {
	return &snapshot{
		runtime: s.runtime.Stats(), mqtt: s.broker.Stats(), streams: s.streams.places.len(),
		logins: s.book.Stats(), sessions: s.gate.sessions.len(),
		mappings: s.mappings.Stats(), alarms: s.alarms.Stats(), retention: s.retention.Status(), bulk: s.bulk.active(), columns: s.finder.Columns(),
	}
}

func valueMetrics() []valueMetric {
	counter := func(name, help string, read func(*snapshot) float64) valueMetric {
		return valueMetric{prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue, read}
	}
	gauge := func(name, help string, read func(*snapshot) float64) valueMetric {
		return valueMetric{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, read}
	}
	return append(alarmMetrics(counter, gauge), []valueMetric{
		counter("greenroom_readings_total", "Readings committed.", func(s *snapshot) float64 { return float64(s.runtime.Readings) }),
		counter("greenroom_values_total", "Values committed.", func(s *snapshot) float64 { return float64(s.runtime.Values) }),
		counter("greenroom_readings_rejected_total", "Readings that the entity runtime refused or could not keep.", func(s *snapshot) float64 { return float64(s.runtime.Rejected) }),
		counter("greenroom_batches_total", "Commits.", func(s *snapshot) float64 { return float64(s.runtime.Batches) }),
		counter("greenroom_store_errors_total", "Commits that failed, each try counted.", func(s *snapshot) float64 { return float64(s.runtime.StoreErrors) }),
		counter("greenroom_seal_failures_total", "Times that history could not be packed; it stays as it is, and is tried again.", func(s *snapshot) float64 { return float64(s.runtime.SealFailures) }),
		counter("greenroom_streams_lagged_total", "Times that a stream's reader fell behind and was carried on from the change log.", func(s *snapshot) float64 { return float64(s.runtime.Lagged) }),
		gauge("greenroom_window_bytes", "Bytes of readings between their acceptance and their commit.", func(s *snapshot) float64 { return float64(s.runtime.WindowUsed) }),
		gauge("greenroom_window_bytes_max", "The bound of greenroom_window_bytes; beyond it sources are slowed down.", func(s *snapshot) float64 { return float64(s.runtime.WindowMax) }),
		gauge("greenroom_entities_live", "Entities that have an actor.", func(s *snapshot) float64 { return float64(s.runtime.Live) }),
		gauge("greenroom_entities_registered", "Entities in the store.", func(s *snapshot) float64 { return float64(s.runtime.Registered) }),
		gauge("greenroom_entities_hot_bytes", "About what the entities that have an actor occupy.", func(s *snapshot) float64 { return float64(s.runtime.HotBytes) }),
		counter("greenroom_entities_evicted_total", "Entities that went cold.", func(s *snapshot) float64 { return float64(s.runtime.Evicted) }),
		gauge("greenroom_relations", "Edges between entities.", func(s *snapshot) float64 { return float64(s.runtime.Relations) }),
		counter("greenroom_command_steps_total", "Steps of commands committed: queued, sent, delivered, and each progress and end.", func(s *snapshot) float64 { return float64(s.runtime.Commands) }),
		gauge("greenroom_command_entities", "Entities with commands that have not ended.", func(s *snapshot) float64 { return float64(s.runtime.OpenCommands) }),
		gauge("greenroom_command_receivers", "Connections of devices that can get commands.", func(s *snapshot) float64 { return float64(s.runtime.Receivers) }),
		gauge("greenroom_devices_online", "Entities whose devices are online.", func(s *snapshot) float64 { return float64(s.runtime.Online) }),
		gauge("greenroom_devices_connected", "Those of them whose devices have a connection.", func(s *snapshot) float64 { return float64(s.runtime.Connected) }),
		counter("greenroom_devices_went_online_total", "Times that a device came to be online.", func(s *snapshot) float64 { return float64(s.runtime.WentOnline) }),
		counter("greenroom_devices_went_offline_total", "Times that a device came to be offline.", func(s *snapshot) float64 { return float64(s.runtime.WentOffline) }),
		gauge("greenroom_streams", "Event streams that are open.", func(s *snapshot) float64 { return float64(s.streams) }),

		gauge("greenroom_principals", "People, services and devices that may log in.", func(s *snapshot) float64 { return float64(s.logins.Principals) }),
		gauge("greenroom_principals_held", "Principals that had to wait within the last 10 s because they sent more than their rate.", func(s *snapshot) float64 { return float64(s.logins.Held) }),
		counter("greenroom_rate_waits_total", "Times that something was read later because its principal had sent more than its rate.", func(s *snapshot) float64 { return float64(s.logins.Waits) }),
		counter("greenroom_rate_wait_seconds_total", "The sum of these waits.", func(s *snapshot) float64 { return s.logins.Waited.Seconds() }),
		gauge("greenroom_browser_sessions", "Sessions of browsers that are logged in.", func(s *snapshot) float64 { return float64(s.sessions) }),

		gauge("greenroom_mappings", "Mappings that are installed.", func(s *snapshot) float64 { return float64(s.mappings.Mappings) }),
		gauge("greenroom_mapping_waiting", "Changes that the mappings have read and not gone through.", func(s *snapshot) float64 { return float64(s.mappings.Waiting) }),
		gauge("greenroom_mapping_lag_seconds", "How long ago the change had been committed that the mappings go through now; 0 when none waits.", func(s *snapshot) float64 { return s.mappings.Lag.Seconds() }),
		counter("greenroom_mapping_changes_total", "Changes that the mappings went through.", func(s *snapshot) float64 { return float64(s.mappings.Changes) }),
		counter("greenroom_mapping_evaluations_total", "Evaluations of mapped fields.", func(s *snapshot) float64 { return float64(s.mappings.Evaluations) }),
		counter("greenroom_mapping_failures_total", "Evaluations that failed, and values that a target refused.", func(s *snapshot) float64 { return float64(s.mappings.Failures) }),
		gauge("greenroom_mapping_kept_bytes", "What the mappings keep of their sources in memory, an estimate.", func(s *snapshot) float64 { return float64(s.mappings.Kept) }),
		counter("greenroom_mapping_dropped_total", "Values, and groups of entities, for which the mappings had no room.", func(s *snapshot) float64 { return float64(s.mappings.Dropped) }),
		counter("greenroom_mapping_outputs_total", "Readings that mappings have written.", func(s *snapshot) float64 { return float64(s.mappings.Outputs) }),
		counter("greenroom_retention_rows_total", "Rows of rollups that were made.", func(s *snapshot) float64 { return float64(s.retention.Rows) }),
		counter("greenroom_retention_removed_total", "Values that retention has deleted from the history.", func(s *snapshot) float64 { return float64(s.retention.Removed) }),
		gauge("greenroom_index_columns", "Paths that the search index has a column for.", func(s *snapshot) float64 { return float64(s.columns) }),
		gauge("greenroom_bulk_running", "Bulk updates that are running.", func(s *snapshot) float64 { return float64(s.bulk) }),

		gauge("greenroom_mqtt_connections", "MQTT clients that are connected.", func(s *snapshot) float64 { return float64(s.mqtt.Connections) }),
		gauge("greenroom_mqtt_subscriptions", "MQTT subscriptions.", func(s *snapshot) float64 { return float64(s.mqtt.Subscriptions) }),
		gauge("greenroom_mqtt_retained", "Retained MQTT messages, those of $SYS included.", func(s *snapshot) float64 { return float64(s.mqtt.Retained) }),
		counter("greenroom_mqtt_bytes_received_total", "Bytes read from MQTT clients.", func(s *snapshot) float64 { return float64(s.mqtt.BytesReceived) }),
		counter("greenroom_mqtt_bytes_sent_total", "Bytes written to MQTT clients.", func(s *snapshot) float64 { return float64(s.mqtt.BytesSent) }),
		counter("greenroom_mqtt_forwarded_total", "Messages forwarded to MQTT subscribers.", func(s *snapshot) float64 { return float64(s.mqtt.Forwarded) }),
		counter("greenroom_mqtt_forward_dropped_total", "Messages that an MQTT subscriber lost because it was too far behind, or took no packets as large.", func(s *snapshot) float64 { return float64(s.mqtt.ForwardDropped) }),
		gauge("greenroom_mqtt_queued_bytes", "Bytes of the messages and wills that wait for MQTT subscribers.", func(s *snapshot) float64 { return float64(s.mqtt.Queued) }),
		gauge("greenroom_mqtt_sessions", "Sessions of MQTT clients that are not connected.", func(s *snapshot) float64 { return float64(s.mqtt.Sessions) }),
	}...)
}
