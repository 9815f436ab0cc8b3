// Writes the compositions and layers of the open project to a JSON file, for `tidemill render template scan`.
// In After Effects choose File > Scripts > Run Script File, and choose this file.
(function () {
    function text(value) {
        // The JSON object is missing in older versions.
        return '"' + String(value).replace(/[\\"\u0000-\u001f\u007f-\uffff]/g, function (letter) {
            return '\\u' + ('000' + letter.charCodeAt(0).toString(16)).slice(-4);
        }) + '"';
    }

    function describe(layer) {
        var type = 'other', source = layer.source, inner = '';
        if (layer.matchName === 'ADBE Text Layer') {
            type = 'text';
        } else if (source instanceof CompItem) {
            type = 'composition';
            inner = ', "composition": ' + text(source.name);
        } else if (source instanceof FootageItem && source.hasVideo && !(source.mainSource instanceof SolidSource)) {
            type = 'image';
        }
        return '        {"name": ' + text(layer.name) + ', "type": "' + type + '"' + inner + '}';
    }

    function compose(item) {
        var layers = [];
        for (var i = 1; i <= item.numLayers; i++) layers.push(describe(item.layer(i)));
        return '    {"name": ' + text(item.name) + ', "width": ' + item.width + ', "height": ' + item.height +
            ', "frame_rate": ' + item.frameRate + ', "duration": ' + item.duration +
            ', "layers": [' + (layers.length ? '\n' + layers.join(',\n') + '\n    ' : '') + ']}';
    }

    var compositions = [], project = app.project.file;
    for (var i = 1; i <= app.project.numItems; i++) {
        if (app.project.item(i) instanceof CompItem) compositions.push(compose(app.project.item(i)));
    }
    var report = '{\n' + (project ? '  "project": ' + text(decodeURI(project.name)) + ',\n' : '') +
        '  "compositions": [\n' + compositions.join(',\n') + '\n  ]\n}\n';
    var file = File.saveDialog('Save the report for Tidemill', 'JSON:*.json');
    if (file) {
        file.encoding = 'UTF-8';
        if (!file.open('w') || !file.write(report)) alert('The report cannot be written: ' + file.error);
        file.close();
    }
})();
