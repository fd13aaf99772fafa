package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/entity/alarm"
)

// alarmMetrics returns the metrics about alarms.
func alarmMetrics(counter, gauge func(name, help string, read func(*snapshot) float64) valueMetric) []valueMetric {
	list := []valueMetric{
		gauge("greenroom_alarm_rules", "Rules of alarms that are in force.", func(s *snapshot) float64 { return float64(s.alarms.Rules) }),
		gauge("greenroom_alarms_unacknowledged", "Alarms that have not cleared and that nobody has acknowledged.", func(s *snapshot) float64 { return float64(s.alarms.Unacknowledged) }),
		gauge("greenroom_alarm_waiting", "Changes that the alarms have read and not gone through.", func(s *snapshot) float64 { return float64(s.alarms.Waiting) }),
		counter("greenroom_alarm_evaluations_total", "Evaluations of the conditions of alarms.", func(s *snapshot) float64 { return float64(s.alarms.Evaluations) }),
		counter("greenroom_alarm_late_total", "Late readings that concern a rule of alarms.", func(s *snapshot) float64 { return float64(s.alarms.Late) }),
		counter("greenroom_alarm_ahead_total", "Readings that wait for their time to be judged: a clock is ahead.", func(s *snapshot) float64 { return float64(s.alarms.Ahead) }),
		counter("greenroom_alarm_late_ignored_total", "Those that were too old to change alarms.", func(s *snapshot) float64 { return float64(s.alarms.Ignored) }),
		counter("greenroom_alarm_overflow_total", "Conditions that were met and not followed, as too many are.", func(s *snapshot) float64 { return float64(s.alarms.Overflow) }),
	}
	for outcome, read := range map[string]func(*alarm.Stats) uint64{
		"delivered": func(s *alarm.Stats) uint64 { return s.Delivered }, "failed": func(s *alarm.Stats) uint64 { return s.Failed },
		"dead": func(s *alarm.Stats) uint64 { return s.Dead }, "lost": func(s *alarm.Stats) uint64 { return s.Lost },
	} {
		desc := prometheus.NewDesc("greenroom_webhook_deliveries_total", "Deliveries to webhooks: taken, attempts that are made again, given up, and given up without being kept.", nil, prometheus.Labels{"outcome": outcome})
		list = append(list, valueMetric{desc, prometheus.CounterValue, func(s *snapshot) float64 { return float64(read(&s.alarms)) }})
	}
	for i, severity := range alarm.SeverityNames() {
		desc := prometheus.NewDesc("greenroom_alarms_open", "Alarms that have not cleared.", nil, prometheus.Labels{"severity": severity})
		list = append(list, valueMetric{desc, prometheus.GaugeValue, func(s *snapshot) float64 { return float64(s.alarms.Open[i]) }})
	}
	return list
}
