// Package homie implements the Homie convention, version 5: devices that publish to the broker
// report for entities, and controllers discover them by the retained messages.
//
//	homie/5/{device}/{node}/{property}           a reading of the entity {device}, of the key {node}.{property}
//	homie/5/{device}/{node}/{property}/$target   a reading of the key {node}.{property}.target
//	homie/5/{device}/{node}/{property}/set       to the device: commands, and what other controllers send
//	homie/5/{device}/$state                      the section reported, as homie.state
//	homie/5/{device}/$description                the section reported, as homie.description
//	homie/5/{device}/$alert/{alert}              the section reported, as homie.alerts.{alert}
//	homie/5/{device}/$log/{level}                a reading of the key $log.{level}
//	homie/5/$broadcast/…                         to everybody, from those who may write all entities
//
// The description of a device determines the types of its values. The broker retains what devices
// publish as retained, for those who may read the entity.
//
// https://homieiot.github.io/specification/
package homie
