//! The settings that connect devices to this server, for the API and the control socket.

use avocet_config::Protocol;
use avocet_control::ControlError;
use avocet_control::connect::{
    Connect, ConnectDocument, ConnectEndpoint, ConnectFault, ConnectFile, ConnectForm,
    ConnectPlain, ConnectProtocol, ConnectReport, ConnectText,
};

use crate::connect::document::document;
use crate::connect::{
    DeviceConnection, Endpoint, PlainService, encrypted_listeners, host_names, stamp,
};
use crate::running::Running;

/// Returns the ways to connect a device. Without encryption, routers and devices of the network can
/// still be connected.
pub(super) fn report(running: &Running, wish: &Connect) -> Result<ConnectReport, ControlError> {
    let snapshot = running.shared.snapshot();
    let config = &snapshot.config;
    let plain = PlainService::of(config, wish.listener.as_deref())?;
    let plain = plain.or(PlainService::of(config, None)?);
    let mut report = ConnectReport {
        name: None,
        names: host_names(config),
        listeners: encrypted_listeners(config),
        endpoints: Vec::new(),
        missing: None,
        plain: plain.map(of_plain),
        documents: Vec::new(),
    };
    match DeviceConnection::of(config, wish) {
        Ok(connection) => {
            let endpoint = |one| of_endpoint(&connection, one);
            report.endpoints = connection.endpoints.iter().filter_map(endpoint).collect();
            report.documents = ConnectForm::ALL.map(|form| text(&connection, form)).into();
            report.plain = connection.plain.map(of_plain).or(report.plain);
            report.name = Some(connection.name);
        }
        Err(fault @ (ConnectFault::NoName | ConnectFault::NoListener(_))) => {
            report.missing = Some(fault.to_string());
        }
        Err(fault) => return Err(fault.into()),
    }
    Ok(report)
}

/// Returns a document that connects a device.
pub(super) fn file(
    running: &Running,
    request: &ConnectDocument,
) -> Result<ConnectFile, ControlError> {
    let connection = DeviceConnection::of(&running.shared.snapshot().config, &request.device)?;
    Ok(ConnectFile {
        media: request.form.media().to_owned(),
        file: request.form.file().to_owned(),
        text: document(&connection, request.form)?,
    })
}

fn text(connection: &DeviceConnection, form: ConnectForm) -> ConnectText {
    match document(connection, form) {
        Ok(text) => ConnectText { form, text: Some(text), reason: None },
        Err(fault) => ConnectText { form, text: None, reason: Some(fault.to_string()) },
    }
}

fn of_endpoint(connection: &DeviceConnection, endpoint: &Endpoint) -> Option<ConnectEndpoint> {
    let protocol = match endpoint.protocol {
        Protocol::Tls => ConnectProtocol::Tls,
        Protocol::Https => ConnectProtocol::Https,
        Protocol::Quic => ConnectProtocol::Quic,
        // Plain is not encrypted, and H3 is a part of HTTPS.
        Protocol::Plain | Protocol::H3 => return None,
    };
    let url = connection.url().filter(|_| protocol == ConnectProtocol::Https);
    Some(ConnectEndpoint {
        protocol,
        host: endpoint.host.clone(),
        port: endpoint.port,
        addresses: endpoint.addresses.iter().map(ToString::to_string).collect(),
        has_h3: endpoint.has_h3,
        url,
        stamp: stamp::stamp(connection, endpoint),
    })
}

fn of_plain(plain: PlainService) -> ConnectPlain {
    let addresses = plain.addresses.iter().map(ToString::to_string).collect();
    ConnectPlain { port: plain.port, addresses }
}
